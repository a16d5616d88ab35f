// SPDX-License-Identifier: Apache-2.0
// A-priori bounds on the error of a matmul, derived from the rows of the machine table.
#pragma once
#include "core/format.hpp"
#include "emulation/machine/models.hpp"
#include "emulation/matmul/rule.hpp"
#include "emulation/matmul/sum_order.hpp"

#include <cstdint>

namespace macheps::study {

/// The magnitudes of one output's products, in the output's units: what its errors are relative to.
struct OutputSize {
    double magnitudes = 0;  ///< S = sum of |a||b|
    /// The same with every subnormal factor counted as the least normal number of its format: what sets the units at
    /// which products are cut.
    double lifted = 0;
    double flushed = 0;  ///< the part of S whose products have a subnormal factor
    double factor = 1;   ///< the largest of the scales that meet the machine's sums, by which its underflows grow
};

/// Local errors, each relative to the same size: summed as they are (all of one sign), their means, and the squares of
/// what they vary by.
class LocalErrors {
  public:
    void add(const ModelError& error);
    double sum() const { return sum_; }
    double mean() const { return mean_; }
    double squares() const { return squares_; }

  private:
    double sum_ = 0, mean_ = 0, squares_ = 0;
};

/// What bounds |out - exact| of outputs that came about in one way. The bounds are absolute: of one output.
class ErrorBound {
  public:
    /// Certain / S, where nothing is subnormal.
    double relative() const { return terms_.sum() + sums_.sum(); }
    /// No order of events exceeds it, unless something overflows.
    double certain(const OutputSize& size) const;
    /// At most `certain`. Exceeded with a probability below 2 exp(-lambda^2 / 2), see error_bound.
    double probable(const OutputSize& size, double lambda) const;

    /// `errors` befall a sum that has those which were added before.
    void add(const ModelError& error);
    /// What the machine's chains lose where they underflow: once more for each chain.
    void add_machine(const ModelErrors& errors, double chains);
    /// What else is lost below the normal numbers: before the scales meet the sum, and in the output's units.
    void add_unscaled_underflow(double size) { machine_underflow_ += size; }
    void add_underflow(double size) { underflow_ += size; }

  private:
    double lost(const OutputSize& size) const;

    LocalErrors terms_{}, sums_{};  ///< relative to OutputSize::lifted and to ::magnitudes
    double machine_underflow_ = 0, underflow_ = 0;
    bool flushes_operands_ = false;
};

/// Bounds for outputs of k terms under `rule`, then `factors` multiplications by decode scales and a rounding to
/// `output`.
///
/// Where the numbers come from. u(D) is the largest relative error of rounding a finished step: 2^-24 for fp32, 2^-11
/// for fp16, 2^-8 for bf16 to nearest; 2^-23 for fp32 and 2^-13 for E8M13 toward zero. T = ceil(k / L) steps.
/// - fma_chain: k u (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013: without second-order terms).
/// - pairwise: (1 + ceil(log2 k)) u, one for the product. exact: u. kahan: 4 u + (4 k + 12) u^2: a rounding of the
///   product, of its sum with the correction and of the last sum, and once more for the difference t - s.
/// - truncated: with unit 2^(emax - F), each term but the one of exponent emax loses less than 2^(emax - F). For
///   normal factors 2^emax is at most the largest |product| or |addend|, and cutting toward zero keeps every addend
///   within the magnitudes summed so far, so at most S. L terms per step: k 2^-F in all, and T u(D) for the steps.
///   fp16 accumulators round to nearest, which can lift a sum above S: both grow by (1 + u)^T.
/// - scaled_groups: of a step's four groups and addend, four are cut at 2^(emax - 35), emax that of a group's scales:
///   k/16 2^-35 where a product of two fp4 numbers counts as at least 1, + T u(D).
/// - through_fp16: an instruction's two steps start from zero, so their errors are relative to the instruction's
///   products and do not grow with k: 32 2^-25 + 2 u(D). Then T additions to nearest.
/// - exact_step: T u. flushed_pairs: products and pairs round relative to their step, (1 + log2 L) u, then T u.
/// - floored: products and addend lose less than (L + 1) 2^-F of the step's largest product; the sum beside the addend
///   loses 2^-32, the floor to 31 bits 2^-31, the rounding 2^-24 per step. floored_even_odd: two more cuts.
/// - Promotion every P: the chain's errors with k = P, since a block's are relative to the block's share of S; then
///   ceil(k / P) additions to nearest in fp32. Slices likewise, with the roundings of their join. Errors of one stage
///   are relative to what the stages before it gave: (1 + c) S.
///
/// What is below the normal numbers comes on top:
/// - A result that underflows loses up to half of the least subnormal number to nearest, all of it toward zero, and up
///   to the least normal number where the machine flushes. Such a loss is like another value of the product: the
///   errors that follow are relative to it too. So c S + (1 + c) A in all, A the sum of these losses.
/// - A unit that no product sets, since the addend's exponent (of zero: SumRule::zero_exponent) is the largest, cuts
///   L terms.
/// - A subnormal factor counts with the exponent of the least normal number, so that the unit of its step is not bounded
///   by its product: cuts are relative to OutputSize::lifted.
/// - A machine that reads subnormal operands as zero loses OutputSize::flushed.
/// Nothing may overflow; no scale, product of two scales or product of a sum with the first of two may be subnormal.
///
/// The probable bound takes local errors for independent of each other and of the data. An error of cutting lies
/// between 0 and its size s, always of one sign: its mean is s/2, its half-width s/2. An error of rounding to nearest
/// has the half-width s and a mean only as far as the addends of the sum do not spread over several units: of T
/// roundings of relative size s, a unit is to an addend as T s to 1 on the average, and of addends that spread evenly
/// those below half a unit are lost, which gives the share min(1, T s / 2) of s. (So a sum that stalls has a probable
/// bound of its full size.) Deviations from the means then exceed lambda sqrt(sum of the squares of the half-widths)
/// with a probability below 2 exp(-lambda^2 / 2) (Azuma and Hoeffding; Higham and Mary, SIAM J. Sci. Comput. 41, 2019;
/// Connolly, Higham and Mary, 43, 2021). Losses below the normal numbers are added whole. Data of a pattern, such as
/// equal numbers, can exceed it: each of their errors is the same.
ErrorBound error_bound(const MatmulRule& rule, std::int64_t k, const Format& output, int factors);

/// The same of an order of summation in a format, from the errors of its row (emulation/matmul/sum_order.hpp). A
/// stochastic rounding is off by up to twice as much as one to nearest, but has the mean zero (Connolly, Higham and
/// Mary).
ErrorBound error_bound(const SumOrder& order, std::int64_t k, const Format& output, int factors);

}  // namespace macheps::study
