// SPDX-License-Identifier: Apache-2.0
// Computes the norm of the gradients from their sums of squares, and from the norm the factor that clips the gradients.
// The formulas are the rows of policy::clip_formulas.
#pragma once
#include "core/format.hpp"
#include "experiments/policy/training.hpp"

#include <optional>

namespace macheps::training {

/// Computes the norm of all gradients from the sum of squares of each gradient tensor.
class NormOfTensors {
  public:
    explicit NormOfTensors(const policy::ClipFormula& formula) : formula_(formula) {}
    /// Adds a tensor. `squares` is its sum of squares, computed in fp32, or in fp64 for Norm::tensors_fp64. `format` is
    /// the format to which the norm of the tensor is rounded.
    void add(double squares, Format format);
    /// Returns the norm of all tensors. If the norms of the tensors all have the same format, the result is rounded to
    /// this format, else to fp32.
    float result() const;

  private:
    const policy::ClipFormula& formula_;
    double sum64_ = 0;
    float sum_ = 0;
    std::optional<Format> format_;  ///< format of the latest tensor's norm
    bool differ_ = false;
};

/// Returns the factor that clips gradients whose format is `format`.
float clip_coefficient(const policy::ClipFormula& formula, float norm, double max_norm, Format format);

/// Returns a single factor that both unscales and clips: 1 / (c S) with c = max(1, (norm + 1e-6) / max_norm). S is
/// `scale`, and `norm` is the norm of the unscaled gradients.
float combined_factor(float norm, double scale, double max_norm);

}  // namespace macheps::training
