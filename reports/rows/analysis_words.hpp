// SPDX-License-Identifier: Apache-2.0
// The descriptions of the columns of numerical analysis: linear systems, sums, formulas.
#pragma once
#include "reports/rows/column_words.hpp"
#include "reports/rows/solve_verdicts.hpp"

namespace macheps::reports {

inline constexpr ColumnWords solve_words[] = {
    {"matrix", "", "as asked for", ""},
    {"n", "rows", "of the matrix", ""},
    {"seed", "", "of the matrix and of b", ""},
    {"kappa_2", share, "condition number in the 2-norm that `randsvd` was asked for", ""},
    {"kappa", share, "condition number, row sums", "norm(A) norm(inverse)"},
    {"kappa_kind", "",
     "`inverse`: by the inverse in fp128 of a system with a proven solution; `estimate`: from below (Hager, Higham)",
     ""},
    {"cond", share, "condition number of A for componentwise errors", "norm(abs(inverse) abs(A))"},
    {"cond_x", share, "the same at this x", "norm(abs(inverse) abs(A) abs(x)) / norm(x)"},
    {"factor", "", "format of L and U, u_f", ""},
    {"substitution", "", "format of both triangular solves, u_s", ""},
    {"work", "", "format of x and b, u", ""},
    {"residual", "", "format of b - A x, u_r", ""},
    {"gmres", "", "format of GMRES but for its products, u_g", ""},
    {"precond", "", "format of its products with A and the factors, u_p", ""},
    {"lu", "",
     "`right`, or `block:NB/OPERANDS/ACCUMULATOR`; `+fused`: one rounding for each update; `+unpivoted`: no pivoting; "
     "`cholesky`, with `+shift:C` what its diagonal grew by; `qr`",
     ""},
    {"machine", "", "of the blocked update; empty without one", ""},
    {"scale", "", "how A was scaled by powers of two before its cast to the factor's format", ""},
    {"mu_exponent", "", "of the common factor; 0 where the format has range enough", ""},
    {"cast_underflow", values, "of A, nonzero, and zero after the cast", ""},
    {"cast_to_subnormal", values, "of A, subnormal after the cast", ""},
    {"cast_overflow", values, "of A, beyond the largest finite value", ""},
    {"method", "",
     "`lu`: no refinement; `ir`: by the factors; `gmres-ir`: by GMRES that they precondition; `gmres`: by GMRES "
     "without them",
     ""},
    {"verdict", "", solve_verdict_words, ""},
    {"steps", steps, "of refinement", ""},
    {"inner", steps, "of GMRES, summed over the steps", ""},
    {"fe_first", share, "forward error of step 0: the factors alone", ""},
    {"fe", share, "forward error of the last x, measured against the reference solution; empty where that is uncertain",
     "norm(x - exact) / norm(exact)"},
    {"nbe", share, "normwise backward error", "norm(r) / (norm(A) norm(x) + norm(b))"},
    {"cbe", share, "componentwise backward error", "max abs(r) / (abs(A) abs(x) + abs(b))"},
    {"hpl", share, "the figure of HPL-MxP, valid below 16", "nbe / (n 2^-53)"},
    {"growth", share, "of the elements in the factorisation", "max abs(u) / max abs(a)"},
    {"lu_error", share, "backward error of the factorisation of the rounded matrix", "norm(P A - L U) / norm(A)"},
    {"contraction", share, "of the forward error per step", "(fe / fe_first)^(1/steps)"},
    {"limit", share, "condition number up to which theory promises convergence", ""},
    {"flops_low", "operations",
     "in the factor's and the substitution's format: LU 2 n^3 / 3, Cholesky half of it, QR twice as many, and 2 n^2 "
     "(QR 3) for each solve",
     ""},
    {"flops_work", "operations", "in the others: 2 n^2 for each residual, 4 n^2 for each step of GMRES", ""},
    {"reference", "",
     "`fp128`: factors of 113 digits; `refined`: factors of fp64; both with residuals of 237 digits and a proven bound "
     "of at most "
     "2^-100 on the error; `uncertain`: no solution was proven, and no forward error is given",
     ""},
    {"evidence", "", "how the machine's row is known; `definition` without one", ""},
    {"reference_error", share, "proven bound on the error of the reference solution",
     "norm(reference - exact) / norm(exact)"},
};

inline constexpr ColumnWords solve_step_words[] = {
    {"matrix", "", "as asked for", ""},
    {"n", "rows", "of the matrix", ""},
    {"seed", "", "of the matrix and of b", ""},
    {"factor", "", "format of L and U", ""},
    {"method", "", "as in solve.csv", ""},
    {"step", "step", "of the refinement; 0: the factors alone", ""},
    {"fe", share, "forward error of this x", "as in solve.csv"},
    {"nbe", share, "normwise backward error", "as in solve.csv"},
    {"cbe", share, "componentwise backward error", "as in solve.csv"},
    {"residual", "", "largest element, as the method sees it", "max abs(r)"},
    {"correction", "", "largest element of the correction that led here", "max abs(d)"},
    {"inner", steps, "of GMRES for this correction", ""},
    {"gmres_residual", share, "where GMRES ended, relative to its start", ""},
    {"scale", "", "as in solve.csv", ""},
    {"machine", "", "as in solve.csv", ""},
};

inline constexpr ColumnWords sum_words[] = {
    {"method", "", "order of summation, as asked for", ""},
    {"format", "", "of terms and operations", ""},
    {"round", "", "rounding of every operation; `machine`: the machine's own", ""},
    {"data", "", "what the terms are; `cancel:C` has a dot product of 2.25 2^-C", ""},
    {"seed", "", "of the data and of stochastic rounding", ""},
    {"trials", "", "sums of the same data; they differ under stochastic rounding", ""},
    {"n", "terms", "of the sum", ""},
    {"result", "", "code of trial 0 in hex digits, in the format of the sum: `format`, or the machine's own", ""},
    {"value", "", "of trial 0", ""},
    {"exact", "", "exact sum s of the rounded terms, or of their exact products", ""},
    {"cond", share, "condition number: S is the sum of magnitudes", "S / abs(s), twice that of a dot product"},
    {"abs_error", "", "of trial 0", "abs(value - s)"},
    {"error_unit", share, "of trial 0; u is 2^-p of `format` in every mode, also where a machine's sum is wider",
     "abs(value - s) / (u S)"},
    {"rms_unit", share, "root of the mean square over the trials", "as error_unit"},
    {"mean_unit", share, "mean over the trials, with its sign", "(value - s) / (u S)"},
    {"height", "additions", "on the longest path, the rounding of a product too", ""},
    {"bound_unit", share, "certain bound on error_unit; empty where none is known, and where a trial saturated", ""},
    {"probable_unit", share,
     "bound that errors of mean zero exceed with a probability below 2 exp(-lambda^2 / 2): under stochastic rounding; "
     "to "
     "nearest a model, which stagnation breaks",
     "lambda sqrt(height)"},
    {"lambda", share, "of probable_unit", ""},
    {"stagnated_at", "term", "from 0, in the order of summation: from this one on none moved a recursive sum", ""},
    {"nonfinite", "trials", "whose sum is Inf or NaN", ""},
    {"dot", "", "1: a dot product; 0: a sum", ""},
    {"saturated", "trials",
     "whose sum is finite although an operation overflowed: the format has no Inf and no NaN, or the mode rounds "
     "inward",
     ""},
};

inline constexpr ColumnWords formula_words[] = {
    {"expression", "", "as typed, or an FPCore", ""},
    {"name", "", "of an FPCore", ""},
    {"format", "", "of inputs and operations", ""},
    {"round", "", "rounding of every operation", ""},
    {"functions", "", "`correct`: correctly rounded; `macheps`: those of core/math.hpp", ""},
    {"inputs", values, "whose reference is a number of the format, or an overflow", ""},
    {"skipped", values, "whose reference is NaN; they enter no other figure", ""},
    {"unresolved", values,
     "whose rounded value the enclosures do not settle within the limit of digits or work, or where a loop does not "
     "end; they enter no other figure",
     ""},
    {"mean_bits", "bits", "of error, over the inputs", "log2(1 + numbers of the format between result and reference)"},
    {"max_bits", "bits", "largest; the format's width where a NaN stands beside a number", ""},
    {"worst_x", "", "the first input with `max_bits`: its codes in hex, then its values", ""},
    {"max_ulp", "ulp", "largest over finite results and references", "abs(result - exact) / ulp(reference)"},
    {"not_correct", values, "whose result is not the reference", ""},
    {"overflow", values, "whose result is Inf, and whose reference is finite", ""},
    {"underflow", values, "whose result is 0, and whose reference is not", ""},
    {"nan", values, "whose result is NaN, and whose reference is a number", ""},
};

inline constexpr ColumnWords formula_point_words[] = {
    {"x", "", "values of the inputs, apart by spaces", ""},
    {"result", "", "of the formula in the format", ""},
    {"reference", "", "the exact value, rounded once in the mode of `round` (stochastic: to nearest)", ""},
    {"ulp", "ulp", "of error, where both are finite", "as max_ulp"},
    {"bits", "bits", "of error", "as in eval.csv"},
    {"expression", "", "as in eval.csv", ""},
    {"format", "", "as in eval.csv", ""},
};

}  // namespace macheps::reports
