// SPDX-License-Identifier: Apache-2.0
// Statistics of whole tensors for Backend: amax, non-finite values, errors, exponents, norms. Every instruction set and
// every number of threads returns the bits of the scalar definitions.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/reduce.hpp"

namespace macheps {

/// Returns max |x|, the canonical NaN if any x is NaN, and 0 if n == 0.
float amax_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// Returns true if any x is infinite or NaN.
bool any_nonfinite_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// Returns the sums of definition::error_terms(x, fl32(y * decode_scale)) in fp64 by the lane rule. The result's
/// `count` is the number of pairs in which both numbers are finite.
ErrorSums compare_arrays(Simd simd, ThreadPool& pool, const float* x, const float* y, std::int64_t n,
                         float decode_scale = 1);

/// Returns the counts of floor(log2 |x|).
ExponentHistogram exponents_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// Returns the sum of the terms fl32(x * x), added in fp32 by the lane rule. A NaN result is the canonical NaN.
float sum_of_squares_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

}  // namespace macheps
