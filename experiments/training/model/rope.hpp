// SPDX-License-Identifier: Apache-2.0
// Rotary positions: queries and keys turn by angles that grow with their position.
#pragma once
#include "experiments/training/model/rounder.hpp"

#include <cstdint>
#include <string>

namespace macheps::training {

/// y = x cos + rotate_half(x) sin, which turns channel i of a head with channel i + D/2 by the angle t / theta^(2i/D)
/// (the form of Hugging Face transformers). The frequencies are computed in fp64 and rounded to fp32, angles are fp32
/// products, and the tables their correctly rounded cosines and sines; each of the three may be rounded further by its
/// slot, once.
class Rope {
  public:
    Rope(Backend& backend, Rounder& rounder, const policy::ResolvedPolicy& policy, const std::string& site,
         std::int64_t context, std::int64_t head_width, double theta);
    /// x [B,T,W], of which the first `columns` are heads -> [B,T,columns].
    Value forward(Rounder& rounder, ConstView x, std::int64_t columns);
    /// dy [B,T,N] -> [B,T,N].
    Value backward(Rounder& rounder, Value dy);

  private:
    Slot forward_direct_, forward_rotated_, forward_out_, grad_in_, grad_direct_, grad_rotated_, grad_out_;
    Backend& backend_;
    Tensor cos_, sin_, y_, dx_, rotated_, dy_buffer_;
};

}  // namespace macheps::training
