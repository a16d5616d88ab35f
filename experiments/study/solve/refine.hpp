// SPDX-License-Identifier: Apache-2.0
// Iterative refinement: a system is solved with low-precision factors, and residuals of higher precision correct the
// solution. Each correction comes from the factors (LU-IR, three precisions), from GMRES preconditioned with the
// factors (GMRES-IR, five precisions), or from GMRES without a preconditioner.
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
    ir,        ///< corrections from the factors
    gmres_ir,  ///< corrections from GMRES, preconditioned with the factors
    gmres,     ///< corrections from GMRES without preconditioner; the factors give only the first x
};

struct MethodName {
    std::string_view name;
    Method method;
};
inline constexpr MethodName method_names[] = {
    {"lu", Method::lu}, {"ir", Method::ir}, {"gmres-ir", Method::gmres_ir}, {"gmres", Method::gmres}};

constexpr bool uses_gmres(Method method) { return method == Method::gmres_ir || method == Method::gmres; }

/// Result of a refinement. A NaN never leads to `converged`, because numbers are tested for Inf and NaN before they are
/// compared.
using Verdict = reports::SolveVerdict;

enum class Stop : std::uint8_t {
    oracle,    ///< forward error <= 2u and normwise backward error <= u, against the reference
    residual,  ///< norm(r) < sqrt(n) u norm(A) norm(x), which needs no known solution (as in LAPACK's dsgesv)
};

std::string_view to_string(Method method);

/// Precisions of a refinement. Only `residual` and `precond` may be fp128.
struct RefinePlan {
    Method method = Method::ir;
    Format substitution{};    ///< u_s: both triangular solves with the factors
    Format work = fp64;       ///< u: x, and the residual after it is rounded once
    Format residual = fp128;  ///< u_r: the computation of b - A x
    Format gmres = fp64;      ///< u_g: GMRES except for its products
    Format precond = fp128;   ///< u_p: products with A and the preconditioner
    Stop stop = Stop::residual;
    int max_steps = 30;
    double gmres_tolerance = 1e-4;
};

/// One iterate x of a refinement. Step 0 is the x that comes from the factors alone.
struct RefineStep {
    std::int64_t step = 0;
    SolutionErrors errors{};
    double residual = 0;                     ///< max |r_i|, computed in the precision of the method
    std::optional<double> correction{};      ///< max |d_i| that led to this x
    std::optional<std::int64_t> inner{};     ///< GMRES steps for this correction
    std::optional<double> gmres_residual{};  ///< final residual norm of GMRES divided by its initial one
};

struct Refined {
    Verdict verdict = Verdict::stagnated;
    std::vector<double> x{};
    std::vector<RefineStep> history{};  ///< one step for each finite x
    std::int64_t steps = 0, inner = 0;
    SolutionErrors errors{};  ///< errors of the last x
};

/// Solves A x = b with the factors of fl(mu R A C). `a` and `b` hold numbers of the format `work`. The verdict covers
/// the factorisation and the refinement, but not the cast to the factor's format (see verdict_after_cast in solve.cpp).
Refined refine(const Matrix& a, std::span<const double> b, const Factors& factors, const Equilibration& scaling,
               const RefinePlan& plan, const Reference& reference);

/// Returns the condition number up to which theory promises convergence, where u_f is the unit roundoff of `factor`.
/// For LU-IR it is 1/u_f (Carson, Higham 2018). For GMRES-IR it is u^-1/2 / u_f if the preconditioner has at least
/// twice the digits of u, else (u u_f^2)^-1/3 (Amestoy et al. 2024). For GMRES alone it is 1/u.
double convergence_limit(const RefinePlan& plan, const Format& factor);

}  // namespace macheps::study
