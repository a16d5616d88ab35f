// SPDX-License-Identifier: Apache-2.0
// A-priori bounds on the error of a matmul, derived from the rows of the machine table.
#pragma once
#include "core/format.hpp"
#include "emulation/machine/models.hpp"
#include "emulation/matmul/rule.hpp"
#include "emulation/matmul/sum_order.hpp"

#include <cstdint>

namespace macheps::study {

/// Magnitudes of the products that are summed to one output, in the output's units. The errors of the output are
/// relative to these magnitudes.
struct OutputSize {
    double magnitudes = 0;  ///< S = sum of |a||b|
    /// Like `magnitudes`, but every subnormal factor counts as the smallest normal number of its format. It bounds the
    /// units to which products are truncated.
    double lifted = 0;
    double flushed = 0;  ///< sum of |a||b| over products with a subnormal factor
    double factor = 1;   ///< largest scale that multiplies a sum of the machine, and with it the sum's underflow error
};

/// Local errors that are relative to the same magnitude. Stores three sums over these errors: their bounds (the worst
/// case, in which all errors have the same sign), their means, and the squares of their half-widths.
class LocalErrors {
  public:
    void add(const ModelError& error);
    double sum() const { return sum_; }
    double mean() const { return mean_; }
    double squares() const { return squares_; }

  private:
    double sum_ = 0, mean_ = 0, squares_ = 0;
};

/// Bounds on |out - exact| for all outputs that are computed in the same way. certain() and probable() return the
/// absolute bounds of one output.
class ErrorBound {
  public:
    /// Returns the certain bound divided by S (OutputSize::magnitudes), for outputs without subnormal numbers.
    double relative() const { return terms_.sum() + sums_.sum(); }
    /// Returns an upper bound that holds for all possible rounding errors, unless something overflows.
    double certain(const OutputSize& size) const;
    /// Returns a bound of at most `certain`. It is exceeded with a probability below 2 exp(-lambda^2 / 2), see
    /// error_bound.
    double probable(const OutputSize& size, double lambda) const;

    /// Adds errors that are relative to a sum which already contains all errors added before.
    void add(const ModelError& error);
    /// Adds the errors of the machine's chains. The underflow is counted once for each of the `chains`.
    void add_machine(const ModelErrors& errors, double chains);
    /// Adds the error of an underflow that happens before the sum is multiplied by scales.
    void add_unscaled_underflow(double size) { machine_underflow_ += size; }
    /// Adds the error of an underflow in the units of the output.
    void add_underflow(double size) { underflow_ += size; }

  private:
    double lost(const OutputSize& size) const;

    LocalErrors terms_{}, sums_{};  ///< relative to OutputSize::lifted and OutputSize::magnitudes
    double machine_underflow_ = 0, underflow_ = 0;
    bool flushes_operands_ = false;
};

/// Returns bounds for outputs of k terms under `rule`, followed by `factors` multiplications by decode scales and a
/// rounding to `output`.
///
/// Derivation. A machine adds L terms per step, so k terms take T = ceil(k / L) steps. The result of each step is
/// rounded to a format D, with a relative error of at most u(D). To nearest, u(D) is 2^-24 for fp32, 2^-11 for fp16 and
/// 2^-8 for bf16. Toward zero, it is 2^-23 for fp32 and 2^-13 for E8M13. Relative to S, the bounds by model are:
/// - fma_chain: k u (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013: without second-order terms).
/// - pairwise: (1 + ceil(log2 k)) u to first order, where 1 u is the error of a product.
/// - exact: u.
/// - kahan: 4 u + (4 k + 12) u^2. 4 u covers the roundings of the product, of its sum with the correction, of the last
///   sum, and of the difference t - s.
/// - truncated: a step truncates its terms to the unit 2^(emax - F), where emax is the largest exponent of the step.
///   Each term except one with exponent emax loses less than this unit. For normal factors, 2^emax is at most the
///   largest |product| or |addend|. Because sums are truncated toward zero, no addend exceeds the sum of the magnitudes
///   so far, so 2^emax is at most S. With L terms per step, all terms together lose at most k 2^-F, and the roundings
///   of the steps lose T u(D). fp16 accumulators round to nearest, which can make a sum larger than S. Both losses are
///   then multiplied by (1 + u)^T.
/// - scaled_groups: a step adds four groups and the addend. Four of these five lose less than 2^(emax - 35), where emax
///   comes from the scales of a group. Because a product of two fp4 numbers counts as at least 1, the groups lose
///   (k / 16) 2^-35. The steps add T u(D).
/// - through_fp16: the two steps of an instruction start from zero, so their errors are relative to the products of the
///   instruction and do not grow with k: 32 2^-25 + 2 u(D). One addition to nearest per instruction follows.
/// - exact_step: T u.
/// - flushed_pairs: errors of products and pairs are relative to their step, which gives (1 + log2 L) u. The steps add
///   T u.
/// - floored: products and addend lose less than (L + 1) 2^-F of the step's largest product. In each step, adding the
///   addend loses 2^-32, the floor to 31 bits 2^-31, and the rounding 2^-24.
/// - floored_even_odd: the same errors, and those of two more truncations.
/// - Promotion every P terms: the errors of a block are relative to the block's part of S. All blocks together
///   therefore have the relative errors of one chain with k = P. Then ceil(k / P) additions to nearest in fp32 follow.
///   Slices are treated in the same way, with the roundings of adding the slices. The errors of one stage are relative
///   to the result of the earlier stages, which is at most (1 + c) S if c is their relative error.
///
/// Errors caused by underflow are added:
/// - A result that underflows loses up to half of the smallest subnormal number if it is rounded to nearest, up to all
///   of this number if it is rounded toward zero, and up to the smallest normal number if the machine flushes. Such a
///   loss has the effect of a different product, so later errors are relative to it as well. If A is the sum of these
///   losses, the total error is c S + (1 + c) A.
/// - If the addend has the largest exponent (a zero addend has SumRule::zero_exponent), no product determines the unit.
///   Then L terms are truncated to this unit.
/// - A subnormal factor counts with the exponent of the smallest normal number, so its product does not bound the unit
///   of its step. Truncation errors are therefore relative to OutputSize::lifted.
/// - A machine that reads subnormal operands as zero loses OutputSize::flushed.
/// The bounds are valid only if nothing overflows, and if no scale, no product of two scales, and no product of a sum
/// and the first of two scales is subnormal.
///
/// The probable bound assumes that local errors are independent of each other and of the data. A truncation error lies
/// between 0 and its size s and always has the same sign, so its mean and its half-width are s / 2. An error of
/// rounding to nearest has the half-width s. Its mean is zero if the addends spread over several units of the sum.
/// After T roundings of relative size s, a unit is on average T s times an addend. If the addends spread evenly, those
/// below half a unit are lost, which gives a mean of min(1, T s / 2) s. (For a sum that stalls, the probable bound
/// therefore becomes as large as the certain bound.) The deviation from the sum of the means exceeds lambda times the
/// root of the sum of the squared half-widths with a probability below 2 exp(-lambda^2 / 2) (Azuma and Hoeffding;
/// Higham and Mary, SIAM J. Sci. Comput. 41, 2019; Connolly, Higham and Mary, the same journal, 43, 2021). Underflow
/// errors are added in full. Data with a pattern, such as equal numbers, can exceed this bound, because all their
/// errors are equal.
ErrorBound error_bound(const MatmulRule& rule, std::int64_t k, const Format& output, int factors);

/// Returns the same bounds for an order of summation in a format, from the errors of its row
/// (emulation/matmul/sum_order.hpp). An error of stochastic rounding is up to twice as large as one of rounding to
/// nearest, but has mean zero (Connolly, Higham and Mary).
ErrorBound error_bound(const SumOrder& order, std::int64_t k, const Format& output, int factors);

}  // namespace macheps::study
