// SPDX-License-Identifier: Apache-2.0
// A-priori bounds on the error of a matmul, derived from the rows of the machine table.
#pragma once
#include "core/format.hpp"
#include "emulation/matmul/rule.hpp"

#include <cstdint>

namespace macheps {

/// The local errors of one output, each relative to S = sum of |a||b|: `count` of them, of at most `size` each, summed
/// as they are (all of one sign) and as squares (of no preferred sign).
class LocalErrors {
  public:
    constexpr void add(double count, double size) {
        sum_ += count * size;
        squares_ += count * size * size;
    }
    constexpr void add(const LocalErrors& other) {
        sum_ += other.sum_;
        squares_ += other.squares_;
    }
    constexpr double sum() const { return sum_; }
    constexpr double squares() const { return squares_; }

  private:
    double sum_ = 0, squares_ = 0;
};

/// What bounds |out - exact| / S.
struct ErrorBound {
    double unit = 0;      ///< deterministic / k
    double certain = 0;   ///< sum of the local errors: n u
    double probable = 0;  ///< lambda sqrt(sum of their squares): sqrt(n) u; never above `certain`
};

/// Bounds for one output of k terms under `rule`, then `factors` multiplications by decode scales and a rounding to
/// `output`.
///
/// Where the numbers come from. u(D) is the largest relative error of rounding a finished step: 2^-24 for fp32, 2^-11
/// for fp16, 2^-8 for bf16 to nearest; 2^-23 for fp32 and 2^-13 for E8M13 toward zero. T = ceil(k / L) steps.
/// - fma_chain: k u (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013: without second-order terms).
/// - pairwise: (1 + ceil(log2 k)) u, one for the product. kahan: 3 u + 2 k u^2. exact: u.
/// - truncated: with unit 2^(emax - F), each term but the one of exponent emax loses less than 2^(emax - F). For
///   normal factors 2^emax is at most the largest |product| or |addend|, and cutting toward zero keeps every addend
///   within the magnitudes summed so far, so at most S. L terms per step: k 2^-F in all, and T u(D) for the steps.
///   With fp16 accumulators, which round to nearest, this holds to first order.
/// - scaled_groups: of a step's four groups and addend, four are cut at 2^(emax - 35), and 2^emax <= 4 S since a
///   nonzero product of two fp4 numbers is at least 1/4: k/16 2^-33 + T u(D).
/// - through_fp16: an instruction's two steps start from zero, so their errors are relative to the instruction's
///   products and do not grow with k: 32 2^-25 + 2 u(D). Then T additions to nearest.
/// - exact_step: T u. flushed_pairs: products and pairs round relative to their step, (1 + log2 L) u, then T u.
/// - floored: products and addend lose less than (L + 1) 2^-F of the step's largest product; the sum beside the addend
///   loses 2^-32, the floor to 31 bits 2^-31, the rounding 2^-24 per step. floored_even_odd: two more cuts.
/// - Promotion every P: the chain's errors with k = P, since a block's are relative to the block's share of S; then
///   ceil(k / P) additions to nearest in fp32. Slices likewise, with the roundings of their join.
/// Nothing may overflow or underflow. A subnormal factor counts with the exponent of a normal one: a step whose
/// largest exponent is such a factor's can lose up to 2^(p - 1) times more.
///
/// The probable bound: local errors of mean zero, given those before, exceed lambda sqrt(sum of squares) with a
/// probability below 2 exp(-lambda^2 / 2) (Azuma and Hoeffding; Higham and Mary, SIAM J. Sci. Comput. 41, 2019;
/// Connolly, Higham and Mary, 43, 2021). Errors of cutting toward zero or of an accumulator that stalls have no mean
/// zero, and measured errors above this bound say so.
ErrorBound error_bound(const MatmulRule& rule, std::int64_t k, const Format& output, int factors, double lambda);

}  // namespace macheps
