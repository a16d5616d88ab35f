// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/output_size.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::study {

namespace {

/// Returns |x|, or the smallest normal number if x is subnormal.
double lifted(double x, double min_normal) { return x == 0 ? 0 : std::max(std::fabs(x), min_normal); }

/// Magnitudes of the elements of one operand, [outer, k].
struct Magnitudes {
    std::vector<float> values{};
    std::vector<double> factors{};  ///< block scales, [outer, blocks]; a subnormal one becomes the smallest normal one
    double min_normal = 0;
    bool has_subnormals = false;
};

Magnitudes magnitudes(const RoundedOperand& operand, const Format& format, const Format& scale, std::int64_t outer,
                      std::int64_t k, bool is_transposed) {
    Magnitudes m{.values = std::vector<float>(operand.host.size()), .min_normal = Format::power_of_two(format.emin())};
    for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t p = 0; p < k; ++p) {
            const float x =
                std::fabs(operand.host[static_cast<std::size_t>(is_transposed ? p * outer + o : o * k + p)]);
            m.values[static_cast<std::size_t>(o * k + p)] = x;
            m.has_subnormals = m.has_subnormals || (x > 0 && x < m.min_normal);
        }
    }
    const double min_scale = Format::power_of_two(scale.emin());
    for (const float factor : operand.factors) {
        m.factors.push_back(lifted(factor, min_scale));
        m.has_subnormals = m.has_subnormals || (factor != 0 && std::fabs(factor) < min_scale);
    }
    return m;
}

}  // namespace

std::vector<OutputSize> output_sizes(const GemmData& data, const RoundedOperand& a, const RoundedOperand& b,
                                     std::span<const ExactOutput> exact, ThreadPool& pool) {
    const Format scale = scale_format_of(data.scaling);
    const bool is_in_machine = !(scale == fp32);
    const Magnitudes x = magnitudes(a, data.formats.a, scale, data.m, data.k, false),
                     y = magnitudes(b, data.formats.b, scale, data.n, data.k, true);
    const double out_scale = std::fabs(product_scale(a.scale, b.scale));
    const std::int64_t block = a.k_block > 0 ? a.k_block : data.k, blocks = (data.k + block - 1) / block;
    const double rounding = 1 + static_cast<double>(data.k) * 0x1p-52;  // covers the rounding of fp64 sums of k terms
    std::vector<OutputSize> sizes(exact.size());
    pool.run(static_cast<std::int64_t>(sizes.size()), [&](std::int64_t element) {
        const std::int64_t i = element / data.n, j = element % data.n;
        OutputSize& size = sizes[static_cast<std::size_t>(element)];
        size.magnitudes = size.lifted = exact[static_cast<std::size_t>(element)].magnitudes * rounding;
        if (x.has_subnormals || y.has_subnormals) size.lifted = 0;
        double largest = 0;
        for (std::int64_t at = 0; at < blocks; ++at) {
            const double factor = a.k_block > 0 ? x.factors[static_cast<std::size_t>(i * blocks + at)] *
                                                      y.factors[static_cast<std::size_t>(j * blocks + at)]
                                                : 1;
            largest = std::max(largest, factor);
            if (!x.has_subnormals && !y.has_subnormals) continue;
            double all = 0, flushed = 0;
            for (std::int64_t p = at * block; p < std::min((at + 1) * block, data.k); ++p) {
                const double u = x.values[static_cast<std::size_t>(i * data.k + p)],
                             v = y.values[static_cast<std::size_t>(j * data.k + p)];
                all += lifted(u, x.min_normal) * lifted(v, y.min_normal);
                if (u < x.min_normal || v < y.min_normal) flushed += u * v;
            }
            size.lifted += all * factor * out_scale * rounding;
            size.flushed += flushed * factor * out_scale * rounding;
        }
        size.factor = (is_in_machine ? 1 : largest) * out_scale;
    });
    return sizes;
}

}  // namespace macheps::study
