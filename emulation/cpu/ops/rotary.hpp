// SPDX-License-Identifier: Apache-2.0
// The two terms of a rotary embedding (Backend::rotate), for one instruction set.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Kernel that computes definition::rotate_row() for one row of `heads` heads with `width` elements each. Neither
/// output may be the input array.
using RotateKernel = void (*)(const float* x, const float* cos, const float* sin, Turn turn, std::int64_t heads,
                              std::int64_t width, float* direct, float* rotated);

RotateKernel rotate_kernel(Simd level);

}  // namespace macheps
