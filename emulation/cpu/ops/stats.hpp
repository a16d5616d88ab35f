// SPDX-License-Identifier: Apache-2.0
// What Backend says about whole tensors: amax, non-finite values, errors, exponents, norms. Every instruction set and
// every number of threads returns the bits of the scalar definitions.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/reduce.hpp"

namespace macheps {

/// max |x|; NaN wins (then the result is the canonical NaN); 0 when n == 0.
float amax_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// True when an Inf or a NaN is among x.
bool any_nonfinite_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// Sums of definition::error_terms(x, fl32(y * decode_scale)) in fp64 by the lane rule; `count` is how many pairs are
/// finite.
ErrorSums compare_arrays(Simd simd, ThreadPool& pool, const float* x, const float* y, std::int64_t n,
                         float decode_scale = 1);

/// Counts of floor(log2 |x|).
ExponentHistogram exponents_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

/// The sum of fl32(x * x) in fp32 by the lane rule; a NaN result is the canonical one.
float sum_of_squares_array(Simd simd, ThreadPool& pool, const float* x, std::int64_t n);

}  // namespace macheps
