// SPDX-License-Identifier: Apache-2.0
// Rotary positions: queries and keys are rotated by angles that grow with their position.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <cstdint>
#include <string>

namespace macheps::training {

/// Rotary embedding y = x cos + rotate_half(x) sin, computed in the same way as in Hugging Face transformers. In a head
/// of D channels, it rotates channels i and i + D/2 at position t by the angle t / theta^(2i/D). The frequencies are
/// computed in fp64 and rounded to fp32, and the angles are fp32 products. The tables contain the correctly rounded
/// cosines and sines of these angles. A policy may round the frequencies and both tables once more: each has its own
/// slot.
class Rope {
  public:
    Rope(Backend& backend, Rounder& rounder, const policy::ResolvedPolicy& policy, const std::string& site,
         std::int64_t context, std::int64_t head_width, double theta);
    /// Rotates the heads, which are the first `columns` columns of x: x [B,T,W] -> [B,T,columns].
    Value forward(Rounder& rounder, ConstView x, std::int64_t columns);
    /// Returns the gradient of the columns before the rotation, given the gradient dy after the rotation. Both are
    /// [B,T,N].
    Value backward(Rounder& rounder, Value dy);

  private:
    Slot forward_direct_, forward_rotated_, forward_out_, grad_in_, grad_direct_, grad_rotated_, grad_out_;
    Backend& backend_;
    Tensor cos_, sin_, y_, dx_, rotated_, dy_buffer_;
};

}  // namespace macheps::training
