// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/rope.hpp"

#include "core/math.hpp"

#include <vector>

namespace macheps::training {

Rope::Rope(Backend& backend, Rounder& rounder, const policy::ResolvedPolicy& policy, const std::string& site,
           std::int64_t context, std::int64_t head_width, double theta)
    : forward_direct_(policy, site + ":forward.direct"),
      forward_rotated_(policy, site + ":forward.rotated"),
      forward_out_(policy, site + ":forward.out"),
      grad_in_(policy, site + ":grad.in"),
      grad_direct_(policy, site + ":grad.direct"),
      grad_rotated_(policy, site + ":grad.rotated"),
      grad_out_(policy, site + ":grad.out"),
      backend_(backend) {
    const std::int64_t half = head_width / 2;
    const auto rounded = [&](const char* slot, std::vector<float>& values, Shape shape) {
        Tensor table = backend.empty(shape);
        backend.upload(values, table);
        rounder.apply_in_place(Slot(policy, site + slot), table, fp32);
        backend.download(table, values);
        return table;
    };
    std::vector<float> frequencies;
    for (std::int64_t i = 0; i < half; ++i) {
        const double power = static_cast<double>(2 * i) / static_cast<double>(head_width);
        frequencies.push_back(static_cast<float>(math::exp(-power * math::log(theta))));
    }
    rounded(":forward.inv_freq", frequencies, {half});
    std::vector<float> cosines, sines;
    for (std::int64_t t = 0; t < context; ++t) {
        for (const float frequency : frequencies) {
            const float angle = static_cast<float>(t) * frequency;
            cosines.push_back(math::cos(angle));
            sines.push_back(math::sin(angle));
        }
    }
    cos_ = rounded(":forward.cos", cosines, {context, half});
    sin_ = rounded(":forward.sin", sines, {context, half});
}

Value Rope::forward(Rounder& rounder, ConstView x, std::int64_t columns) {
    const Shape shape{x.shape[0], x.shape[1], columns};
    const View y = sized(backend_, y_, shape), rotated = sized(backend_, rotated_, shape);
    backend_.rotate(x, cos_, sin_, Turn::forward, y, rotated);
    rounder.apply_in_place(forward_direct_, y, fp32);
    rounder.apply_in_place(forward_rotated_, rotated, fp32);
    backend_.add(y, rotated, y);
    return {y, rounder.apply_in_place(forward_out_, y, fp32)};
}

Value Rope::backward(Rounder& rounder, Value incoming) {
    const Value dy = rounder.apply(grad_in_, incoming, dy_buffer_);
    const View dx = sized(backend_, dx_, dy.view.shape), rotated = sized(backend_, rotated_, dy.view.shape);
    // The backward pass rotates by the opposite angle, because the transpose of a rotation is its inverse. The products
    // are dY cos and dY sin, as in autograd.
    backend_.rotate(dy.view, cos_, sin_, Turn::backward, dx, rotated);
    rounder.apply_in_place(grad_direct_, dx, fp32);
    rounder.apply_in_place(grad_rotated_, rotated, fp32);
    backend_.add(dx, rotated, dx);
    return {dx, rounder.apply_in_place(grad_out_, dx, fp32)};
}

}  // namespace macheps::training
