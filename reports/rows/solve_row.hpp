// SPDX-License-Identifier: Apache-2.0
// SolveRow: the measurements of `macheps solve` for one system, factored in one format and solved by one method.
// SolveStepRow: the errors of x after one step of the refinement. event.hpp describes the cells.
#pragma once
#include "reports/rows/event.hpp"

namespace macheps::reports {

/// The solution of A x = b. The norm of a vector is its largest magnitude. The norm of a matrix is its largest row sum
/// of magnitudes. The forward error compares the last x with the reference. The backward errors use the residual of the
/// last x, computed with 113 binary digits and rounded to fp64. All errors are infinite if x is not finite. The forward
/// error of a finite x is empty if the reference is uncertain.
struct SolveRow {
    std::string matrix{};
    std::int64_t n = 0, seed = 0;
    std::optional<double> kappa_2{};  ///< condition number requested from randsvd
    std::optional<double> kappa{};
    std::string kappa_kind{};
    std::optional<double> cond{}, cond_x{};
    std::string factor{}, substitution{}, work{};
    std::optional<std::string> residual{}, gmres{}, precond{};  ///< only for methods that have them
    std::string lu{}, machine{}, scale{};
    std::int64_t mu_exponent = 0;
    std::int64_t cast_underflow = 0, cast_to_subnormal = 0, cast_overflow = 0;
    std::string method{}, verdict{};
    std::int64_t steps = 0;
    std::optional<std::int64_t> inner{};
    std::optional<double> fe_first{};
    std::optional<double> fe{};
    double nbe = 0, cbe = 0, hpl = 0, growth = 0, lu_error = 0;
    std::optional<double> contraction{};
    double limit = 0, flops_low = 0, flops_work = 0;
    std::string reference{}, evidence{};
    std::optional<double> reference_error{};

    bool operator==(const SolveRow&) const = default;
    static constexpr std::string_view file = "solve.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("matrix", &SolveRow::matrix), column("n", &SolveRow::n), column("seed", &SolveRow::seed),
                   column("kappa_2", &SolveRow::kappa_2), column("kappa", &SolveRow::kappa),
                   column("kappa_kind", &SolveRow::kappa_kind), column("cond", &SolveRow::cond),
                   column("cond_x", &SolveRow::cond_x), column("factor", &SolveRow::factor),
                   column("substitution", &SolveRow::substitution), column("work", &SolveRow::work),
                   column("residual", &SolveRow::residual), column("gmres", &SolveRow::gmres),
                   column("precond", &SolveRow::precond), column("lu", &SolveRow::lu),
                   column("machine", &SolveRow::machine), column("scale", &SolveRow::scale),
                   column("mu_exponent", &SolveRow::mu_exponent), column("cast_underflow", &SolveRow::cast_underflow),
                   column("cast_to_subnormal", &SolveRow::cast_to_subnormal),
                   column("cast_overflow", &SolveRow::cast_overflow), column("method", &SolveRow::method),
                   column("verdict", &SolveRow::verdict), column("steps", &SolveRow::steps),
                   column("inner", &SolveRow::inner), column("fe_first", &SolveRow::fe_first),
                   column("fe", &SolveRow::fe), column("nbe", &SolveRow::nbe), column("cbe", &SolveRow::cbe),
                   column("hpl", &SolveRow::hpl), column("growth", &SolveRow::growth),
                   column("lu_error", &SolveRow::lu_error), column("contraction", &SolveRow::contraction),
                   column("limit", &SolveRow::limit), column("flops_low", &SolveRow::flops_low),
                   column("flops_work", &SolveRow::flops_work), column("reference", &SolveRow::reference),
                   column("evidence", &SolveRow::evidence), column("reference_error", &SolveRow::reference_error));
    }
};

struct SolveStepRow {
    std::string matrix{};
    std::int64_t n = 0, seed = 0;
    std::string factor{}, method{};
    std::int64_t step = 0;
    std::optional<double> fe{};
    double nbe = 0, cbe = 0, residual = 0;
    std::optional<double> correction{};
    std::optional<std::int64_t> inner{};
    std::optional<double> gmres_residual{};
    std::optional<std::string> scale{}, machine{};

    bool operator==(const SolveStepRow&) const = default;
    static constexpr std::string_view file = "solve_steps.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("matrix", &SolveStepRow::matrix), column("n", &SolveStepRow::n),
                   column("seed", &SolveStepRow::seed), column("factor", &SolveStepRow::factor),
                   column("method", &SolveStepRow::method), column("step", &SolveStepRow::step),
                   column("fe", &SolveStepRow::fe), column("nbe", &SolveStepRow::nbe),
                   column("cbe", &SolveStepRow::cbe), column("residual", &SolveStepRow::residual),
                   column("correction", &SolveStepRow::correction), column("inner", &SolveStepRow::inner),
                   column("gmres_residual", &SolveStepRow::gmres_residual), column("scale", &SolveStepRow::scale),
                   column("machine", &SolveStepRow::machine));
    }
};

}  // namespace macheps::reports
