// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "emulation/cpu/simd/simd.hpp"

#include <cstddef>

namespace macheps::test {

using ArrayFunction = void (*)(const float* x, float* y, std::size_t n);

struct ArrayFunctions {
    ArrayFunction exp, expm1, log, log1p, tanh, erf, rsqrt, sin, cos, halve_in_fp64;
};

/// Returns the array functions for `level`, which must be avx2 or avx512.
ArrayFunctions vector_functions(Simd level);

}  // namespace macheps::test
