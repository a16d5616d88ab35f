// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/optimizer/clip_norm.hpp"

#include "core/codec.hpp"
#include "core/math.hpp"
#include "core/math64.hpp"

namespace macheps::training {

namespace {

float rounded(Format format, float x) { return quantize(format, x, Round::nearest_even, Overflow::nonsaturate); }

/// The constant that torch adds to the norm.
constexpr float beside_norm = 1e-6f;

}  // namespace

void NormOfTensors::add(double squares, Format format) {
    differ_ = differ_ || (format_ && !(*format_ == format));
    format_ = format;
    if (formula_.norm == policy::ClipFormula::Norm::tensors_fp64) {
        const double norm = macheps::sqrt(squares);
        sum64_ += norm * norm;
    } else if (formula_.norm == policy::ClipFormula::Norm::elements) {
        sum_ += static_cast<float>(squares);
    } else {
        const float norm = rounded(format, macheps::sqrt(static_cast<float>(squares)));
        sum_ += norm * norm;
    }
}

float NormOfTensors::result() const {
    if (formula_.norm == policy::ClipFormula::Norm::tensors_fp64) return static_cast<float>(macheps::sqrt(sum64_));
    const float norm = macheps::sqrt(sum_);
    return format_ && !differ_ ? rounded(*format_, norm) : norm;
}

float clip_coefficient(const policy::ClipFormula& formula, float norm, double max_norm, Format format) {
    const float ratio = rounded(format, static_cast<float>(max_norm) / rounded(format, norm + beside_norm));
    if (formula.only_shrinks) return ratio < 1.0f ? ratio : 1.0f;
    return ratio > 1.0f ? 1.0f : ratio;  // a NaN stays
}

float combined_factor(float norm, double scale, double max_norm) {
    const float c = (norm + beside_norm) / static_cast<float>(max_norm);
    const float clipped = c < 1.0f ? 1.0f : c;  // torch.clamp keeps a NaN
    return static_cast<float>(1.0 / double{clipped * static_cast<float>(scale)});
}

}  // namespace macheps::training
