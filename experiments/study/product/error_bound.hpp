// SPDX-License-Identifier: Apache-2.0
// A-priori bounds on the error of a matmul, derived from the rows of the machine table.
#pragma once
#include "core/format.hpp"
#include "emulation/machine/models.hpp"
#include "emulation/matmul/rule.hpp"
#include "emulation/matmul/sum_order.hpp"

#include <cstdint>

namespace macheps::study {

/// Magnitudes of one output's products, in the output's units. The errors of the output are relative to them.
struct OutputSize {
    double magnitudes = 0;  ///< S = sum of |a||b|
    /// The same, but every subnormal factor counts as the smallest normal number of its format. It bounds the units at
    /// which products are cut.
    double lifted = 0;
    double flushed = 0;  ///< the part of S whose products have a subnormal factor
    double factor = 1;   ///< the largest of the scales that multiply the machine's sums; underflows grow by it
};

/// Local errors that are relative to the same size: the sum of their bounds (as if all had one sign), of their means,
/// and of the squares of their half-widths.
class LocalErrors {
  public:
    void add(const ModelError& error);
    double sum() const { return sum_; }
    double mean() const { return mean_; }
    double squares() const { return squares_; }

  private:
    double sum_ = 0, mean_ = 0, squares_ = 0;
};

/// Bounds on |out - exact| for outputs that were computed in one way. The bounds for one output are absolute.
class ErrorBound {
  public:
    /// Returns the certain bound divided by S, if nothing is subnormal.
    double relative() const { return terms_.sum() + sums_.sum(); }
    /// Returns an upper bound that holds for all possible rounding errors, unless something overflows.
    double certain(const OutputSize& size) const;
    /// Returns a bound of at most `certain`. It is exceeded with a probability below 2 exp(-lambda^2 / 2), see
    /// error_bound.
    double probable(const OutputSize& size, double lambda) const;

    /// Adds errors of a sum that already contains the errors added before.
    void add(const ModelError& error);
    /// Adds the errors of the machine's chains. Their underflow counts once for each chain.
    void add_machine(const ModelErrors& errors, double chains);
    /// Add other losses below the normal numbers: those before the scales multiply the sum, and those in the output's
    /// units.
    void add_unscaled_underflow(double size) { machine_underflow_ += size; }
    void add_underflow(double size) { underflow_ += size; }

  private:
    double lost(const OutputSize& size) const;

    LocalErrors terms_{}, sums_{};  ///< relative to OutputSize::lifted and to ::magnitudes
    double machine_underflow_ = 0, underflow_ = 0;
    bool flushes_operands_ = false;
};

/// Returns bounds for outputs of k terms under `rule`, followed by `factors` multiplications by decode scales and a
/// rounding to `output`.
///
/// Derivation. u(D) is the largest relative error of rounding a finished step: 2^-24 for fp32, 2^-11 for fp16, 2^-8 for
/// bf16 to nearest; 2^-23 for fp32 and 2^-13 for E8M13 toward zero. There are T = ceil(k / L) steps.
/// - fma_chain: k u (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013: without second-order terms).
/// - pairwise: (1 + ceil(log2 k)) u to first order; the 1 is for the product. exact: u. kahan: 4 u + (4 k + 12) u^2,
///   for the roundings of the product, of its sum with the correction, of the last sum, and of the difference t - s.
/// - truncated: with unit 2^(emax - F), each term except the one of exponent emax loses less than 2^(emax - F). For
///   normal factors 2^emax is at most the largest |product| or |addend|. Cutting toward zero keeps every addend within
///   the magnitudes summed so far, so 2^emax is at most S. With L terms per step, this gives k 2^-F in all, and T u(D)
///   for the steps. fp16 accumulators round to nearest, which can lift a sum above S: both parts grow by (1 + u)^T.
/// - scaled_groups: of a step's four groups and addend, four are cut at 2^(emax - 35), where emax comes from the scales
///   of a group. This gives k/16 2^-35, since a product of two fp4 numbers counts as at least 1, and T u(D).
/// - through_fp16: the two steps of an instruction start from zero, so their errors are relative to the products of the
///   instruction and do not grow with k: 32 2^-25 + 2 u(D). Then follows one addition to nearest per instruction.
/// - exact_step: T u. flushed_pairs: products and pairs round relative to their step, (1 + log2 L) u, then T u.
/// - floored: products and addend lose less than (L + 1) 2^-F of the step's largest product. The sum that joins the
///   addend loses 2^-32, the floor to 31 bits 2^-31, and the rounding 2^-24 per step. floored_even_odd: two more cuts.
/// - Promotion every P: the errors of the chain with k = P, since those of a block are relative to the block's share of
///   S, and then ceil(k / P) additions to nearest in fp32. Slices are treated in the same way, with the roundings of
///   their join. Errors of one stage are relative to the results of the stages before it: (1 + c) S.
///
/// Losses below the normal numbers are added:
/// - A result that underflows loses up to half of the smallest subnormal number when rounded to nearest, all of it
///   toward zero, and up to the smallest normal number if the machine flushes. Such a loss is like a different value of
///   the product, so the errors that follow are relative to it as well. The total is c S + (1 + c) A, where A is the
///   sum of these losses.
/// - If the exponent of the addend (for zero: SumRule::zero_exponent) is the largest, no product sets the unit. Such a
///   unit cuts L terms.
/// - A subnormal factor counts with the exponent of the smallest normal number, so its product does not bound the unit
///   of its step. Cuts are therefore relative to OutputSize::lifted.
/// - A machine that reads subnormal operands as zero loses OutputSize::flushed.
/// Nothing may overflow. No scale, product of two scales or product of a sum with the first of two scales may be
/// subnormal.
///
/// The probable bound assumes that local errors are independent of each other and of the data. An error of cutting lies
/// between 0 and its size s, always with one sign, so its mean is s/2 and its half-width s/2. An error of rounding to
/// nearest has half-width s. It has a mean only if the addends do not spread over several units of the sum. After T
/// roundings of relative size s, a unit is on average T s times an addend. If the addends spread evenly, those below
/// half a unit are lost, which gives a mean of min(1, T s / 2) s. (So a sum that stalls has a probable bound of its
/// full size.) Deviations from the means exceed lambda sqrt(sum of the squares of the half-widths) with a probability
/// below 2 exp(-lambda^2 / 2) (Azuma and Hoeffding; Higham and Mary, SIAM J. Sci. Comput. 41, 2019; Connolly, Higham
/// and Mary, 43, 2021). Losses below the normal numbers are added in full. Data with a pattern, such as equal numbers,
/// can exceed this bound, because all their errors are equal.
ErrorBound error_bound(const MatmulRule& rule, std::int64_t k, const Format& output, int factors);

/// Returns the same bounds for an order of summation in a format, from the errors of its row
/// (emulation/matmul/sum_order.hpp). An error of stochastic rounding is up to twice as large as one of rounding to
/// nearest, but has mean zero (Connolly, Higham and Mary).
ErrorBound error_bound(const SumOrder& order, std::int64_t k, const Format& output, int factors);

}  // namespace macheps::study
