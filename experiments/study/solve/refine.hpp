// SPDX-License-Identifier: Apache-2.0
// Iterative refinement: a low-precision factorisation, corrected by residuals of a higher precision, each step with the
// factors themselves (LU-IR, three precisions) or by GMRES that they precondition (GMRES-IR, five), or that nothing does.
#pragma once
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/factors.hpp"
#include "experiments/study/solve/reference.hpp"
#include "reports/rows/solve_verdicts.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Method : std::uint8_t {
    lu,        ///< no refinement
    ir,        ///< corrections by the factors
    gmres_ir,  ///< by GMRES, preconditioned by the factors
    gmres,     ///< by GMRES alone: the factors make the first x, and nothing else
};

struct MethodName {
    std::string_view name;
    Method method;
};
inline constexpr MethodName method_names[] = {
    {"lu", Method::lu}, {"ir", Method::ir}, {"gmres-ir", Method::gmres_ir}, {"gmres", Method::gmres}};

constexpr bool uses_gmres(Method method) { return method == Method::gmres_ir || method == Method::gmres; }

/// A comparison with a NaN never ends in `converged`: the tests for numbers that are not finite come first.
using Verdict = reports::SolveVerdict;

enum class Stop : std::uint8_t {
    oracle,    ///< forward error <= 2u and normwise backward error <= u, against the reference
    residual,  ///< norm(r) < sqrt(n) u norm(A) norm(x): what a library that knows no solution can ask (LAPACK's dsgesv)
};

std::string_view to_string(Method method);

/// The precisions of a refinement. fp128 may stand in `residual` and `precond`.
struct RefinePlan {
    Method method = Method::ir;
    Format substitution{};    ///< u_s: both triangular solves with the factors
    Format work = fp64;       ///< u: x, and the residual after its one rounding
    Format residual = fp128;  ///< u_r: b - A x
    Format gmres = fp64;      ///< u_g: what GMRES does but for its products
    Format precond = fp128;   ///< u_p: products with A and the preconditioner
    Stop stop = Stop::residual;
    int max_steps = 30;
    double gmres_tolerance = 1e-4;
};

/// One x, from step 0 on: that of the factors alone.
struct RefineStep {
    std::int64_t step = 0;
    SolutionErrors errors{};
    double residual = 0;                     ///< max |r_i|, as the method sees it
    std::optional<double> correction{};      ///< max |d_i| that led to this x
    std::optional<std::int64_t> inner{};     ///< steps of GMRES for it
    std::optional<double> gmres_residual{};  ///< where GMRES ended, relative to its start
};

struct Refined {
    Verdict verdict = Verdict::stagnated;
    std::vector<double> x{};
    std::vector<RefineStep> history{};  ///< one for each x that was finite
    std::int64_t steps = 0, inner = 0;
    SolutionErrors errors{};  ///< of the last x
};

/// Solves A x = b with the factors of fl(mu R A C). `a` and `b` hold numbers of the format `work`. The verdict covers the
/// factorisation and the refinement, but not the cast to the factor's format (see verdict_after_cast in solve.cpp).
Refined refine(const Matrix& a, std::span<const double> b, const Factors& factors, const Equilibration& scaling,
               const RefinePlan& plan, const Reference& reference);

/// The condition number up to which theory promises convergence: 1/u_f of LU-IR (Carson, Higham 2018), of GMRES-IR
/// u^-1/2 / u_f with a preconditioner of twice the digits, else (u u_f^2)^-1/3 (Amestoy et al. 2024), of GMRES alone 1/u.
double convergence_limit(const RefinePlan& plan, const Format& factor);

}  // namespace macheps::study
