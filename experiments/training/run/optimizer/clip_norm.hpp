// SPDX-License-Identifier: Apache-2.0
// From the squares of gradients to the factor that clips them, as the rows of `clip_formulas` say.
#pragma once
#include "core/format.hpp"
#include "experiments/policy/training.hpp"

#include <optional>

namespace macheps::training {

/// The norm of all gradients, of sums of squares tensor by tensor.
class NormOfTensors {
  public:
    explicit NormOfTensors(const policy::ClipFormula& formula) : formula_(formula) {}
    /// `squares` is a sum of fp32 numbers, or of fp64 ones for Norm::tensors_fp64. The tensor's norm is a number of `format`.
    void add(double squares, Format format);
    /// In the format of the tensors' norms where they have the same, else fp32.
    float result() const;

  private:
    const policy::ClipFormula& formula_;
    double sum64_ = 0;
    float sum_ = 0;
    std::optional<Format> format_;  ///< of all tensors so far
    bool differ_ = false;
};

/// What gradients of `format` are multiplied by.
float clip_coefficient(const policy::ClipFormula& formula, float norm, double max_norm, Format format);

/// The one factor that unscales and clips: 1 / (c S) with c = max(1, (norm + 1e-6) / max_norm), of the unscaled norm.
float combined_factor(float norm, double scale, double max_norm);

}  // namespace macheps::training
