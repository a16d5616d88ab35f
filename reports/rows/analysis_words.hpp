// SPDX-License-Identifier: Apache-2.0
// Descriptions of the CSV columns of linear systems (`macheps solve`), sums (`sum`) and formulas (`eval`).
#pragma once
#include "reports/rows/column_words.hpp"
#include "reports/rows/solve_verdicts.hpp"

namespace macheps::reports {

inline constexpr ColumnWords solve_words[] = {
    {"matrix", "", "the matrix as given", ""},
    {"n", "rows", "rows of the matrix", ""},
    {"seed", "", "seed of the matrix and of b", ""},
    {"kappa_2", share, "condition number in the 2-norm that was requested from `randsvd`", ""},
    {"kappa", share, "condition number of A in the infinity norm", "norm(A) norm(inverse)"},
    {"kappa_kind", "",
     "`inverse`: computed from the inverse in fp128, for a system with a proven solution; `estimate`: a lower bound by "
     "the method of Hager and Higham",
     ""},
    {"cond", share, "condition number of A for componentwise errors", "norm(abs(inverse) abs(A))"},
    {"cond_x", share, "condition number of A for componentwise errors at this x",
     "norm(abs(inverse) abs(A) abs(x)) / norm(x)"},
    {"factor", "", "format of L and U; its unit roundoff is u_f", ""},
    {"substitution", "", "format of both triangular solves; its unit roundoff is u_s", ""},
    {"work", "", "format of x and b; its unit roundoff is u", ""},
    {"residual", "", "format of b - A x; its unit roundoff is u_r", ""},
    {"gmres", "", "format of GMRES, except for its matrix products; its unit roundoff is u_g", ""},
    {"precond", "", "format of the products that GMRES computes with A and the factors; its unit roundoff is u_p", ""},
    {"lu", "",
     "kind of factorisation. `right`: LU, one column at a time; `block:NB/OPERANDS/ACCUMULATOR`: LU in panels of NB "
     "columns, with these formats in the update; `cholesky`; `qr`. Suffixes: `+fused`: one rounding for each update; "
     "`+unpivoted`: no pivoting; `+shift:C`: the diagonal elements were multiplied by 1 + C u_f",
     ""},
    {"machine", "", "machine that computed the blocked update; empty without a machine", ""},
    {"scale", "", "how A was scaled by powers of two before its cast to the factor's format", ""},
    {"mu_exponent", "",
     "exponent of the power of two that scales the whole matrix; 0 if the range of the format is sufficient", ""},
    {"cast_underflow", values, "nonzero elements of A that the cast made zero", ""},
    {"cast_to_subnormal", values, "elements of A that are subnormal after the cast", ""},
    {"cast_overflow", values, "elements of A beyond the largest finite value", ""},
    {"method", "",
     "`lu`: no refinement; `ir`: refinement with the factors; `gmres-ir`: refinement with GMRES, preconditioned by the "
     "factors; `gmres`: refinement with GMRES, without a preconditioner",
     ""},
    {"verdict", "", solve_verdict_words, ""},
    {"steps", steps, "refinement steps", ""},
    {"inner", steps, "GMRES steps, summed over the refinement steps", ""},
    {"fe_first", share, "forward error of step 0, which solves the system with the factors alone", ""},
    {"fe", share,
     "forward error: relative distance of the last x from the reference solution; empty if the reference solution is "
     "uncertain",
     "norm(x - exact) / norm(exact)"},
    {"nbe", share, "normwise backward error", "norm(r) / (norm(A) norm(x) + norm(b))"},
    {"cbe", share, "componentwise backward error", "max abs(r) / (abs(A) abs(x) + abs(b))"},
    {"hpl", share, "error as defined by the benchmark HPL-MxP; it is below 16 in a valid run", "nbe / (n 2^-53)"},
    {"growth", share, "growth of the elements in the factorisation", "max abs(u) / max abs(a)"},
    {"lu_error", share, "backward error of the factorisation of the rounded matrix", "norm(P A - L U) / norm(A)"},
    {"contraction", share, "factor by which one step changes the forward error (geometric mean)",
     "(fe / fe_first)^(1/steps)"},
    {"limit", share,
     "condition number of A up to which theory guarantees convergence of the method; constants that depend on n are "
     "left out",
     "lu, ir: 1 / u_f; gmres-ir: 1 / (sqrt(u) u_f) if u_p <= u^2, otherwise (u u_f^2)^(-1/3); gmres: 1 / u"},
    {"flops_low", "operations",
     "operations in the formats of the factors and of the substitution: 2 n^3 / 3 for LU, half as many for Cholesky, "
     "twice as many for QR, and 2 n^2 (QR: 3 n^2) for each solve",
     ""},
    {"flops_work", "operations",
     "operations in the other formats: 2 n^2 for each residual and each step of GMRES, and for `gmres-ir` one more "
     "solve with the factors for each step of refinement and of GMRES",
     ""},
    {"reference", "",
     "kind of the reference solution. `fp128`: computed with factors of 113 bits; `refined`: computed with factors of "
     "fp64. `fp128` and `refined` use residuals of 237 bits and have a proven error bound of at most 2^-100. "
     "`uncertain`: no solution was proven, so the forward error is empty",
     ""},
    {"evidence", "",
     "kind of evidence that the machine is modelled correctly, as in docs/evidence.md; `definition` without a machine",
     ""},
    {"reference_error", share, "proven bound on the error of the reference solution",
     "norm(reference - exact) / norm(exact)"},
};

inline constexpr ColumnWords solve_step_words[] = {
    {"matrix", "", "the matrix as given", ""},
    {"n", "rows", "rows of the matrix", ""},
    {"seed", "", "seed of the matrix and of b", ""},
    {"factor", "", "format of L and U", ""},
    {"method", "", "as in solve.csv", ""},
    {"step", "step", "number of the refinement step; step 0 solves the system with the factors alone", ""},
    {"fe", share, "forward error of this x", "as in solve.csv"},
    {"nbe", share, "normwise backward error", "as in solve.csv"},
    {"cbe", share, "componentwise backward error", "as in solve.csv"},
    {"residual", "", "largest magnitude in the residual, as the method computes the residual", "max abs(r)"},
    {"correction", "", "largest magnitude in the correction that led to this x", "max abs(d)"},
    {"inner", steps, "GMRES steps for this correction", ""},
    {"gmres_residual", share, "residual at the end of GMRES, relative to the residual at the start of GMRES", ""},
    {"scale", "", "as in solve.csv", ""},
    {"machine", "", "as in solve.csv", ""},
};

inline constexpr ColumnWords sum_words[] = {
    {"method", "", "order of summation as given", ""},
    {"format", "", "format of the terms and operations", ""},
    {"round", "", "rounding of every operation; `machine` if the machine defines the rounding", ""},
    {"data", "",
     "distribution of the terms. With `cancel:C`, the exact dot product is 2.25 2^-C. With `equal:VALUE`, every term "
     "is VALUE, rounded to the format",
     ""},
    {"seed", "", "seed of the data and of stochastic rounding", ""},
    {"trials", "", "number of sums of the same data; the sums differ only under stochastic rounding", ""},
    {"n", "terms", "terms of the sum", ""},
    {"result", "",
     "bit pattern (hex) of the result of trial 0, in the format of column `format` or, for a machine, of its sums", ""},
    {"value", "", "result of trial 0", ""},
    {"exact", "", "exact sum s of the rounded terms, or of their exact products for a dot product", ""},
    {"cond", share, "condition number of the sum", "S / abs(s); for a dot product 2 S / abs(s)"},
    {"abs_error", "", "absolute error of trial 0", "abs(value - s)"},
    {"error_unit", share,
     "error of trial 0, relative to u S. In every rounding mode, u is 2^-p, where p is the precision of `format`, even "
     "if a machine sums in a wider format",
     "abs(value - s) / (u S)"},
    {"rms_unit", share, "root mean square of the errors of all trials, relative to u S", "as error_unit"},
    {"mean_unit", share, "mean error of all trials, with its sign, relative to u S", "(value - s) / (u S)"},
    {"height", "additions", "additions on the longest path of the sum; the rounding of a product counts as an addition",
     ""},
    {"bound_unit", share, "guaranteed bound on error_unit; empty if no bound is known or if a trial saturated", ""},
    {"probable_unit", share,
     "probable bound on error_unit. Errors with a mean of zero exceed this bound with a probability below 2 "
     "exp(-lambda^2 / 2). For stochastic rounding, the bound is proved. For rounding to nearest, the bound assumes "
     "random rounding errors, and this assumption fails if the sum stagnates",
     "lambda sqrt(height), twice that under stochastic rounding"},
    {"lambda", share, "number of standard deviations in probable_unit", ""},
    {"stagnated_at", "term",
     "recursive sums without stochastic rounding: from this term on, no term changed the sum; terms are numbered from "
     "0 "
     "in summation order",
     ""},
    {"nonfinite", "trials", "trials whose sum is Inf or NaN", ""},
    {"dot", "", "1 for a dot product, 0 for a sum", ""},
    {"saturated", "trials",
     "trials whose sum is finite although an operation overflowed, because the format has no Inf and no NaN or the "
     "rounding mode returns the largest finite number",
     ""},
};

inline constexpr ColumnWords formula_words[] = {
    {"expression", "", "the formula as typed, or an FPCore", ""},
    {"name", "", "name of the FPCore", ""},
    {"format", "", "format of the inputs and operations", ""},
    {"round", "", "rounding of every operation", ""},
    {"functions", "", "`correct`: functions are correctly rounded; `macheps`: functions are those of core/math.hpp",
     ""},
    {"inputs", values,
     "inputs whose reference is a number of the format or an overflow. The reference is the exact value, rounded once",
     ""},
    {"skipped", values, "inputs whose reference is NaN; no other figure includes them", ""},
    {"unresolved", values,
     "inputs whose reference cannot be determined within the limits of digits and work, or for which a loop does not "
     "end; no other figure includes them",
     ""},
    {"mean_bits", "bits", "mean error over the inputs, in bits",
     "log2(1 + numbers of the format between result and reference)"},
    {"max_bits", "bits",
     "largest error over the inputs, in bits. If only the result or only the reference is NaN, the error is the width "
     "of the format",
     ""},
    {"worst_x", "",
     "first input whose error is `max_bits`: the codes of the input in hex, then its values. If the formula has "
     "several inputs, their order is that of column `x` of eval_points.csv",
     ""},
    {"max_ulp", "ulp", "largest error over finite results and references", "abs(result - exact) / ulp(reference)"},
    {"not_correct", values, "inputs whose result differs from the reference", ""},
    {"overflow", values, "inputs whose result is Inf although the reference is finite", ""},
    {"underflow", values,
     "inputs whose result is 0 although the reference is not, because of an underflow: an operation whose exact result "
     "is not 0 rounded it to 0",
     ""},
    {"nan", values, "inputs whose result is NaN although the reference is a number", ""},
    {"variables", "", "names of the inputs, separated by spaces, in the order of `worst_x`", ""},
    {"digits_lost", values,
     "inputs whose result is 0 although the reference is not, without an underflow. The usual cause is cancellation: a "
     "sum absorbs a small term, and a subtraction then cancels every digit that is left, as in (1+x)-1. In older "
     "files, `underflow` includes these inputs",
     ""},
};

inline constexpr ColumnWords formula_point_words[] = {
    {"x", "",
     "values of the inputs, separated by spaces, in the order in which the inputs first appear in the formula, or in "
     "the order of the argument list of an FPCore",
     ""},
    {"result", "", "result of the formula in the format", ""},
    {"reference", "", "the exact value, rounded once in the mode of `round` (to nearest if `round` is stochastic)", ""},
    {"ulp", "ulp", "error of the result; empty unless both values are finite", "as max_ulp"},
    {"bits", "bits", "error of the result, in bits", "as in eval.csv"},
    {"expression", "", "as in eval.csv", ""},
    {"format", "", "as in eval.csv", ""},
};

}  // namespace macheps::reports
