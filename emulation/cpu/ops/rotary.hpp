// SPDX-License-Identifier: Apache-2.0
// The terms of a rotary embedding, for one instruction set.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Kernel for one row of `heads` heads of `width` elements, as defined in emulation/definitions.hpp. No output may be
/// the input.
using RotateKernel = void (*)(const float* x, const float* cos, const float* sin, Turn turn, std::int64_t heads,
                              std::int64_t width, float* direct, float* rotated);

RotateKernel rotate_kernel(Simd level);

}  // namespace macheps
