// SPDX-License-Identifier: Apache-2.0
// Rotary positions: queries and keys are rotated by angles that grow with their position.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <cstdint>
#include <string>

namespace macheps::training {

/// Rotary embedding y = x cos + rotate_half(x) sin, in the form of Hugging Face transformers. It rotates channels i and
/// i + D/2 of a head by the angle t / theta^(2i/D). The frequencies are computed in fp64 and rounded to fp32, the
/// angles are fp32 products, and the tables hold their correctly rounded cosines and sines. The slots of the
/// frequencies and of the two tables may each round once more.
class Rope {
  public:
    Rope(Backend& backend, Rounder& rounder, const policy::ResolvedPolicy& policy, const std::string& site,
         std::int64_t context, std::int64_t head_width, double theta);
    /// x [B,T,W] -> [B,T,columns]; the first `columns` columns of x are heads.
    Value forward(Rounder& rounder, ConstView x, std::int64_t columns);
    /// dy [B,T,N] -> [B,T,N].
    Value backward(Rounder& rounder, Value dy);

  private:
    Slot forward_direct_, forward_rotated_, forward_out_, grad_in_, grad_direct_, grad_rotated_, grad_out_;
    Backend& backend_;
    Tensor cos_, sin_, y_, dx_, rotated_, dy_buffer_;
};

}  // namespace macheps::training
