// SPDX-License-Identifier: Apache-2.0
// SumModel::exact with vectors. Each sum is accumulated in fp64 together with the rounding errors of its additions. If
// these two numbers do not determine the fp32 result, the scalar definition computes the sum. Included once per SIMD
// target.
#include "emulation/cpu/matmul/parts-inl.hpp"
#include "emulation/matmul/matmul.hpp"

#include <algorithm>
#include <cmath>

#if defined(MACHEPS_ORDER_EXACT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_ORDER_EXACT_INL
#undef MACHEPS_ORDER_EXACT_INL
#else
#define MACHEPS_ORDER_EXACT_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// A sum of products of fp32 numbers in fp64. The products and the error of each addition are exact in fp64.
struct DoubleSum {
    F64 sum, errors, inexact;  ///< inexact: bitwise or of all errors, zero if `sum` is exact
    /// Adds a product and returns the error of the addition.
    HWY_INLINE F64 step(F64 a, F64 b) {
        const F64 next = fma(a, b, sum), rest = next - sum;
        const F64 error = (sum - (next - rest)) + fma(a, b, -rest);
        errors = errors + error;
        sum = next;
        return error;
    }
    HWY_INLINE void add(F64 a, F64 b) { inexact = F64(hn::Or(inexact.v, step(a, b).v)); }
    /// Adds two products. On AVX-512, one instruction ORs both errors into `inexact`.
    HWY_INLINE void add(F64 a0, F64 b0, F64 a1, F64 b1) {
        const F64 first = step(a0, b0), second = step(a1, b1);
        inexact = F64(hn::Or3(inexact.v, first.v, second.v));
    }
};

/// Returns true if x is halfway between two neighbouring fp32 numbers, and also if x is in the subnormal range of fp32.
inline bool is_fp32_tie(double x) {
    const double size = std::fabs(x);
    if (size < 0x1p-126) return true;  // the bit pattern below is that of ties between normal numbers only
    return (bit_cast<std::uint64_t>(x) & 0x1fffffff) == 0x10000000;
}

/// Rounds the exact sum to fp32. The exact sum differs from sum + errors by at most `slack`. Returns false if more than
/// one result is possible. Rounding is monotone, and every tie is a number of fp64. Therefore, if both ends of the
/// interval round to the same number and neither is a tie, every number between them rounds to it too.
inline bool settled(double sum, double errors, bool is_exact, double slack, float& result) {
    if (is_exact && sum == sum) {
        result = sum == 0 ? 0.0f : static_cast<float>(sum);
        return std::fabs(sum) < 0x1p300;
    }
    const double low = sum + (errors - slack), high = sum + (errors + slack);
    result = static_cast<float>(low);
    return result == static_cast<float>(high) && !is_fp32_tie(low) && !is_fp32_tie(high) && std::fabs(high) < 0x1p300;
}

template <int rows>
HWY_NOINLINE void exact_tile(const float* a, std::int64_t a_row, const float* b, std::int64_t n, float* sums) {
    constexpr std::int64_t columns = 2 * lanes_of_vector, lanes = lanes_of_vector / 2;
    float max_b[columns] = {};
    for (std::int64_t p = 0; p < n; ++p)
        for (std::int64_t j = 0; j < columns; ++j) max_b[j] = std::max(max_b[j], std::fabs(b[p * columns + j]));
    DoubleSum parts[rows][4] = {};
    const auto column = [&](std::int64_t p, int v) HWY_ATTR {
        const F32 half = load(b + p * columns + v / 2 * lanes_of_vector);
        return v % 2 == 0 ? promote_lower(half) : promote_upper(half);
    };
    std::int64_t p = 0;
    for (; p + 2 <= n; p += 2) {
        for (int v = 0; v < 4; ++v) {
            const F64 first = column(p, v), second = column(p + 1, v);
            for (int r = 0; r < rows; ++r) {
                const float* const x = a + r * a_row + p;
                parts[r][v].add(F64(static_cast<double>(x[0])), first, F64(static_cast<double>(x[1])), second);
            }
        }
    }
    for (int v = 0; v < 4 && p < n; ++v) {
        for (int r = 0; r < rows; ++r) parts[r][v].add(F64(static_cast<double>(a[r * a_row + p])), column(p, v));
    }
    for (int r = 0; r < rows; ++r, a += a_row, sums += columns) {
        const DoubleSum* const part = parts[r];
        alignas(64) double sum[columns], errors[columns], inexact[columns];
        for (int v = 0; v < 4; ++v) {
            store(part[v].sum, sum + v * lanes);
            store(part[v].errors, errors + v * lanes);
            store(part[v].inexact, inexact + v * lanes);
        }
        float max_a = 0;
        for (std::int64_t p = 0; p < n; ++p) max_a = std::max(max_a, std::fabs(a[p]));
        // No partial sum exceeds `largest`, so each of the n errors is at most 2^-53 largest. Adding up the errors
        // makes n more errors. Each of these is at most 2^-53 times the sum of the first n. The bound is doubled to
        // cover the rounding of the bound itself and of the ends of the interval.
        const double terms = static_cast<double>(n);
        for (std::int64_t j = 0; j < columns; ++j) {
            const double largest = terms * max_a * static_cast<double>(max_b[j]);
            const double slack = 2 * (terms * 0x1p-53) * (terms * 0x1p-53 * largest) + 0x1p-900;
            float result = 0;
            const bool is_exact = bit_cast<std::uint64_t>(inexact[j]) << 1 == 0;
            if (!(slack < 0x1p900) || !settled(sum[j], errors[j], is_exact, slack, result)) {
                result = definition::exact_dot({.a = a, .b = b + j, .a_step = 1, .b_step = columns}, 0, n);
            }
            sums[j] = result;
        }
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
