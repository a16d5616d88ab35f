// SPDX-License-Identifier: Apache-2.0
// Words about the columns of numerical analysis: solve.csv, solve_steps.csv, sum.csv.
#pragma once
#include "reports/column_words.hpp"

namespace macheps {

inline constexpr ColumnWords solve_words[] = {
    {"matrix", "", "as asked for", ""},
    {"n", "rows", "of the matrix", ""},
    {"seed", "", "of the matrix and of b", ""},
    {"kappa_2", share, "condition number in the 2-norm that `randsvd` was asked for", ""},
    {"kappa", share, "condition number, row sums", "norm(A) norm(inverse)"},
    {"kappa_kind", "", "`inverse`: by the inverse in fp128; `estimate`: from below (Hager, Higham)", ""},
    {"cond", share, "condition number of A for componentwise errors", "norm(abs(inverse) abs(A))"},
    {"cond_x", share, "the same at this x", "norm(abs(inverse) abs(A) abs(x)) / norm(x)"},
    {"factor", "", "format of L and U, u_f", ""},
    {"substitution", "", "format of both triangular solves, u_s", ""},
    {"work", "", "format of x and b, u", ""},
    {"residual", "", "format of b - A x, u_r", ""},
    {"gmres", "", "format of GMRES but for its products, u_g", ""},
    {"precond", "", "format of its products with A and the factors, u_p", ""},
    {"lu", "",
     "`right`, or `block:NB/OPERANDS/ACCUMULATOR`; `+fused`: one rounding for each update; `+unpivoted`: no pivoting", ""},
    {"machine", "", "of the blocked update; empty without one", ""},
    {"scale", "", "how A was scaled by powers of two before its cast to the factor's format", ""},
    {"mu_exponent", "", "of the common factor; 0 where the format has range enough", ""},
    {"cast_underflow", values, "of A, nonzero, and zero after the cast", ""},
    {"cast_to_subnormal", values, "of A, subnormal after the cast", ""},
    {"cast_overflow", values, "of A, beyond the largest finite value", ""},
    {"method", "", "`lu`: no refinement; `ir`: by the factors; `gmres-ir`: by GMRES that they precondition", ""},
    {"verdict", "",
     "`converged`, and that alone is success; `stagnated`; `diverged`; `nonfinite`: a residual or x was not finite; "
     "`singular`: a pivot was zero, or a factor not finite",
     ""},
    {"steps", steps, "of refinement", ""},
    {"inner", steps, "of GMRES, summed over the steps", ""},
    {"fe_first", share, "forward error of step 0: the factors alone", ""},
    {"fe", share, "forward error of the last x", "norm(x - exact) / norm(exact)"},
    {"nbe", share, "normwise backward error", "norm(r) / (norm(A) norm(x) + norm(b))"},
    {"cbe", share, "componentwise backward error", "max abs(r) / (abs(A) abs(x) + abs(b))"},
    {"hpl", share, "the figure of HPL-MxP, valid below 16", "nbe / (n 2^-53)"},
    {"growth", share, "of the elements in the factorisation", "max abs(u) / max abs(a)"},
    {"lu_error", share, "backward error of the factorisation of the rounded matrix", "norm(P A - L U) / norm(A)"},
    {"contraction", share, "of the forward error per step", "(fe / fe_first)^(1/steps)"},
    {"limit", share, "condition number up to which theory promises convergence", ""},
    {"flops_low", "operations", "in the factor's and the substitution's format: LU, and 2 n^2 for each solve", ""},
    {"flops_work", "operations", "in the others: 2 n^2 for each residual, 4 n^2 for each step of GMRES", ""},
    {"reference", "",
     "`fp128`: solved with 113 digits; `refined`: fp64 with residuals of 113 digits; `uncertain`: there is none", ""},
    {"evidence", "", "how the machine's row is known; `definition` without one", ""},
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
    {"method", "", "way to add, as asked for", ""},
    {"format", "", "of the numbers and of every operation", ""},
    {"round", "", "of every operation; the data are rounded to nearest even", ""},
    {"data", "", "what is added", ""},
    {"seed", "", "of the data and of stochastic rounding", ""},
    {"trials", "trials", "of stochastic rounding; 1 for every other", ""},
    {"n", "terms", "of the sum", ""},
    {"result", "", "of trial 0: its code, in hexadecimal digits", ""},
    {"value", "", "the same as a number", ""},
    {"exact", "", "exact sum of the rounded data, s, rounded once to fp64", ""},
    {"cond", share, "condition number", "S / abs(s), of dot products 2 S / abs(s); S = sum of the magnitudes"},
    {"abs_error", "", "of trial 0; empty where it is not finite", "abs(value - s)"},
    {"error_unit", "u S", "the same over u S, u = 2^-p", ""},
    {"rms_unit", "u S", "root of the mean square over the finite trials", ""},
    {"mean_unit", "u S", "mean over the finite trials, signed", ""},
    {"height", "additions", "on the longest path; empty where it does not bound the error", ""},
    {"bound_unit", "u S", "certain bound: the height, twice that where a rounding is not to nearest; of `sum2`, `neumaier` and "
     "`dot2` that of Ogita, Rump and Oishi, empty where n u is not below 1", ""},
    {"probable_unit", "u S", "probable bound: lambda times the root of the height, alike; empty for directed roundings", ""},
    {"lambda", "deviations", "it is exceeded with a probability below 2 exp(-lambda^2 / 2)", ""},
    {"stagnated_at", "index", "of the first term from which on none moved a `recursive` sum; empty where the last one did", ""},
    {"nonfinite", "trials", "whose result is not finite", ""},
    {"dot", "0 or 1", "1: a dot product", ""},
};

}  // namespace macheps
