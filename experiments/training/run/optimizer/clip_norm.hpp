// SPDX-License-Identifier: Apache-2.0
// Computes the factor that clips gradients from their sums of squares, as the rows of `clip_formulas` say.
#pragma once
#include "core/format.hpp"
#include "experiments/policy/training.hpp"

#include <optional>

namespace macheps::training {

/// The norm of all gradients, from the sums of squares of the tensors.
class NormOfTensors {
  public:
    explicit NormOfTensors(const policy::ClipFormula& formula) : formula_(formula) {}
    /// Adds a tensor. `squares` is a sum of fp32 numbers, or of fp64 numbers for Norm::tensors_fp64. `format` is the
    /// format of the tensor's norm.
    void add(double squares, Format format);
    /// Returns the norm in the format of the tensors' norms if they have the same one, else in fp32.
    float result() const;

  private:
    const policy::ClipFormula& formula_;
    double sum64_ = 0;
    float sum_ = 0;
    std::optional<Format> format_;  ///< of all tensors so far
    bool differ_ = false;
};

/// Returns the factor for gradients in `format`.
float clip_coefficient(const policy::ClipFormula& formula, float norm, double max_norm, Format format);

/// Returns the single factor that unscales and clips: 1 / (c S) with c = max(1, (norm + 1e-6) / max_norm), where S is
/// `scale` and `norm` is the norm of the unscaled gradients.
float combined_factor(float norm, double scale, double max_norm);

}  // namespace macheps::training
