// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/solve.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/math64.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/study/solve/factor/cholesky.hpp"
#include "experiments/study/solve/factor/lu_blocked.hpp"
#include "experiments/study/solve/factor/qr.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::study {

namespace {

/// Settings of one factorisation. Each refinement method of the grid uses its factors and adds one row to the results.
struct Cell {
    Format factor{};
    Factorisation kind{};
    const std::optional<SpelledRule>* machine = nullptr;
    Scale scale{};
};

/// One kind of factorisation. `flops` is its number of operations divided by n^3. `solve_flops` is the number of
/// operations of a solution with its factors, divided by n^2.
struct FactorisationRow {
    Factorisation kind;
    Factors (*factor)(const Matrix& low, const LuPlan& plan, ThreadPool& pool);
    double flops, solve_flops;
};
constexpr FactorisationRow factorisation_rows[] = {
    {Factorisation::lu, [](const Matrix& a, const LuPlan& plan, ThreadPool& pool) { return factor_lu(a, plan, pool); },
     2.0 / 3, 2},
    {Factorisation::cholesky,
     [](const Matrix& a, const LuPlan& plan, ThreadPool& pool) { return factor_cholesky(a, plan.format, pool); },
     1.0 / 3, 2},
    {Factorisation::qr,
     [](const Matrix& a, const LuPlan& plan, ThreadPool& pool) { return factor_qr(a, plan.format, pool); }, 4.0 / 3, 3},
};
static_assert(std::size(factorisation_rows) == std::size(factorisation_names));

const FactorisationRow& row_of(Factorisation kind) { return factorisation_rows[static_cast<std::size_t>(kind)]; }

std::vector<Cell> cells_of(const SolveGrid& grid) {
    std::vector<Cell> cells;
    for (const Format& factor : grid.factors) {
        for (const Factorisation kind : grid.factorisations) {
            std::vector<Scale> scales = grid.scales;
            if (scales.empty()) scales = {kind == Factorisation::cholesky ? Scale::symmetric : Scale::two_sided};
            for (const auto& machine : grid.machines) {
                for (const Scale scale : scales) cells.push_back({factor, kind, &machine, scale});
            }
        }
    }
    return cells;
}

/// Returns the operand format in which the machine reads the factors: the format of the factors if the machine accepts
/// it, and otherwise the accepted operand format with the most digits.
Format machine_operands(const Machine& machine, const Format& factor) {
    if (machine.operands.contains(factor)) return factor;
    Format best = factor;
    int digits = 0;
    for (const Format& format : FormatSet::known) {
        if (!machine.operands.contains(format) || format.encoding != Encoding::binary || format == fp64) continue;
        if (format.precision > digits) best = format, digits = format.precision;
    }
    return best;
}

LuPlan lu_plan(const SolveGrid& grid, const Cell& cell) {
    LuPlan plan{.format = cell.factor, .pivots = grid.pivots, .fused = grid.fused, .block = grid.block};
    plan.operands = grid.operands.value_or(cell.factor);
    plan.accumulator = grid.accumulator.value_or(cell.factor == fp64 ? fp64 : fp32);
    if (*cell.machine) {
        plan.rule = (*cell.machine)->rule;
        if (!grid.operands) plan.operands = machine_operands(*plan.rule->machine, cell.factor);
    }
    return plan;
}

RefinePlan refine_plan(const SolveGrid& grid, const Cell& cell, Method method) {
    const bool is_wide = grid.work == fp64;
    return {.method = method,
            .substitution = grid.substitution.value_or(cell.factor),
            .work = grid.work,
            .residual = grid.residual.value_or(is_wide ? fp128 : fp64),
            .gmres = grid.gmres.value_or(grid.work),
            .precond = grid.precond.value_or(is_wide ? fp128 : fp64),
            .stop = grid.stop,
            .max_steps = grid.max_steps,
            .gmres_tolerance = grid.gmres_tolerance};
}

std::string lu_words(const SolveGrid& grid, const Cell& cell, const LuPlan& plan) {
    if (cell.kind == Factorisation::qr) return "qr";
    if (cell.kind == Factorisation::cholesky)
        return grid.shift > 0 ? fmt::format("cholesky+shift:{}", grid.shift) : "cholesky";
    std::string words = "right";
    if (plan.block > 0) {
        words = fmt::format("block:{}/{}/{}", plan.block, format_name(plan.operands),
                            format_name(plan.rule ? plan.rule->machine->addend : plan.accumulator));
    }
    return words + (grid.fused ? "+fused" : "") + (grid.pivots ? "" : "+unpivoted");
}

/// A matrix and its right-hand side in the working format, with their reference solution.
struct Problem {
    const MatrixChoice* choice = nullptr;
    std::int64_t seed = 0;
    Matrix a{};
    std::vector<double> b{};
    Reference reference{};
};

Problem problem_of(const SolveGrid& grid, const MatrixChoice& choice, std::int64_t n, std::int64_t seed,
                   ThreadPool& pool) {
    Problem p{.choice = &choice, .seed = seed, .a = make_matrix(choice, n, static_cast<std::uint64_t>(seed))};
    p.b = right_hand_side(p.a.n, static_cast<std::uint64_t>(seed));
    with_arithmetic(grid.work, [&](const auto& in) {
        for (double& each : p.a.values) each = in.from(each);
        for (double& each : p.b) each = in.from(each);
    });
    if (!all_finite(p.a.values)) {
        throw usage_error(fmt::format("an element of {} is larger than the largest number of {}", choice.text,
                                      solver_format_name(grid.work)),
                          "--work", "use a wider format");
    }
    const auto& kinds = grid.factorisations;
    if (std::find(kinds.begin(), kinds.end(), Factorisation::cholesky) != kinds.end() && !is_symmetric(p.a)) {
        throw usage_error(fmt::format("{} is not symmetric", choice.text), "--factorisation cholesky",
                          "use lu or qr, or a symmetric matrix such as lehmer, minij or tridiag:-1,2,-1");
    }
    p.reference = reference_solution(p.a, p.b, pool);
    return p;
}

/// Result rows of one factorisation: `rows` has one row per method, and `steps` one row per iterate.
struct CellRows {
    std::vector<reports::SolveRow> rows{};
    std::vector<reports::SolveStepRow> steps{};
};

void add_costs(reports::SolveRow& row, const Refined& refined, Method method, Factorisation kind) {
    const auto n = static_cast<double>(row.n), steps = static_cast<double>(refined.steps);
    const auto inner = static_cast<double>(refined.inner);
    const double product = 2 * n * n, looks = steps + 1, solve = row_of(kind).solve_flops * n * n;
    row.flops_low = row_of(kind).flops * n * n * n;
    row.flops_work = product * looks;
    if (uses_gmres(method)) {
        const double preconditioner = method == Method::gmres_ir ? solve : 0;
        row.flops_low += solve;
        row.flops_work += preconditioner * steps + (product + preconditioner) * inner;
    } else {
        row.flops_low += solve * looks;
    }
}

/// Returns the final verdict. The cast comes before the factorisation, so a loss in the cast is the first cause of a
/// failure.
Verdict verdict_after_cast(Verdict verdict, const CastCounts& counts) {
    if (verdict != Verdict::converged && counts.leaves_range) return Verdict::cast_overflow;
    if (verdict == Verdict::singular && counts.empties_line) return Verdict::cast_underflow;
    return verdict;
}

void add_method(const SolveGrid& grid, const Problem& problem, const Cell& cell, const Factors& factors,
                const Equilibration& scaling, const CastCounts& counts, Method method, reports::SolveRow row,
                CellRows& out) {
    const RefinePlan plan = refine_plan(grid, cell, method);
    const Refined refined = refine(problem.a, problem.b, factors, scaling, plan, problem.reference);
    row.method = to_string(method);
    row.verdict = to_string(verdict_after_cast(refined.verdict, counts));
    row.substitution = solver_format_name(plan.substitution);
    row.work = solver_format_name(plan.work);
    if (method != Method::lu) row.residual = solver_format_name(plan.residual);
    if (uses_gmres(method)) {
        row.gmres = solver_format_name(plan.gmres);
        row.precond = solver_format_name(plan.precond);
        row.inner = refined.inner;
    }
    row.steps = refined.steps;
    row.fe = refined.errors.forward;
    row.nbe = refined.errors.normwise;
    row.cbe = refined.errors.componentwise;
    row.hpl = row.nbe / (static_cast<double>(row.n) * 0x1p-53);
    row.limit = convergence_limit(plan, cell.factor);
    if (!refined.history.empty()) {
        row.fe_first = refined.history.front().errors.forward;
        const std::optional<double> last = refined.history.back().errors.forward;
        const bool is_measured = row.fe && std::isfinite(*row.fe) && row.fe_first && std::isfinite(*row.fe_first);
        if (refined.steps > 0 && is_measured && *last > 0 && *row.fe_first > 0) {
            row.contraction = math::exp(math::log(*last / *row.fe_first) / static_cast<double>(refined.steps));
        }
    }
    add_costs(row, refined, method, cell.kind);
    for (const RefineStep& step : refined.history) {
        out.steps.push_back({.matrix = row.matrix,
                             .n = row.n,
                             .seed = row.seed,
                             .factor = row.factor,
                             .method = row.method,
                             .step = step.step,
                             .fe = step.errors.forward,
                             .nbe = step.errors.normwise,
                             .cbe = step.errors.componentwise,
                             .residual = step.residual,
                             .correction = step.correction,
                             .inner = step.inner,
                             .gmres_residual = step.gmres_residual,
                             .scale = row.scale});
        if (!row.machine.empty()) out.steps.back().machine = row.machine;
    }
    out.rows.push_back(std::move(row));
}

CellRows run_cell(const SolveGrid& grid, const Problem& problem, const Cell& cell, ThreadPool& pool) {
    const DefaultFloatModes modes;
    CellRows out;
    const Reference& reference = problem.reference;
    const bool is_shifted = cell.kind == Factorisation::cholesky && grid.shift > 0;
    const Matrix a = is_shifted ? shifted(problem.a, cell.factor, grid.shift) : problem.a;
    const Equilibration scaling = equilibrate(a, cell.factor, cell.scale);
    CastCounts counts;
    const Matrix low = cast_matrix(a, scaling, cell.factor, counts);
    const LuPlan plan = lu_plan(grid, cell);
    const Factors factors = row_of(cell.kind).factor(low, plan, pool);
    reports::SolveRow row{.matrix = problem.choice->text, .n = problem.a.n, .seed = problem.seed};
    row.kappa_2 = problem.choice->asked_condition();
    row.kappa = reference.kappa;
    row.kappa_kind = reference.kappa_kind;
    row.cond = reference.cond;
    row.cond_x = reference.cond_x;
    row.factor = solver_format_name(cell.factor);
    row.lu = lu_words(grid, cell, plan);
    row.machine = *cell.machine ? (*cell.machine)->name : "";
    row.scale = to_string(cell.scale);
    row.mu_exponent = scaling.mu;
    row.cast_underflow = counts.underflow;
    row.cast_to_subnormal = counts.to_subnormal;
    row.cast_overflow = counts.overflow;
    row.growth = growth_factor(low, factors);
    row.lu_error = lu_error(low, factors);
    row.reference = reference.quality;
    row.reference_error = reference.error_bound;
    row.evidence = *cell.machine ? to_string((*cell.machine)->rule.machine->evidence) : "definition";
    for (const Method method : grid.methods)
        add_method(grid, problem, cell, factors, scaling, counts, method, row, out);
    return out;
}

bool holds(const Format& wide, const Format& narrow) {
    if (wide == fp128) return true;
    return wide.precision >= narrow.precision && wide.emin() - wide.precision <= narrow.emin() - narrow.precision &&
           decode64(wide, wide.max_finite_code() << wide.padding) >=
               decode64(narrow, narrow.max_finite_code() << narrow.padding);
}

}  // namespace

Format solver_format(std::string_view name, std::string_view option, bool is_wide) {
    if (name == "fp128") {
        if (is_wide) return fp128;
        throw usage_error("this option does not support fp128", std::string(option),
                          "use fp128 only in --residual and --precond");
    }
    const Format format = format_named(name, option, Exit::usage);
    if (!is_rounded_here(format)) {
        throw usage_error(fmt::format("cannot compute in {}", name), std::string(option),
                          "use fp64, or a format with at most 8 exponent bits and a precision of at most 25 bits");
    }
    return format;
}

std::string solver_format_name(const Format& format) {
    return format == fp128 ? "fp128" : std::string(format_name(format));
}

namespace {

/// Throws if a factorisation other than LU has options that only LU supports, or if Cholesky has a scaling that
/// destroys symmetry.
void require_of_kind(const SolveGrid& grid, const Cell& cell) {
    if (cell.kind == Factorisation::lu) return;
    const std::string where = fmt::format("--factorisation {}", to_string(cell.kind));
    if (grid.block > 0 || *cell.machine || grid.fused || !grid.pivots) {
        throw usage_error("only LU supports blocks, machines, --fused and --pivot", where,
                          "leave them out, or use --factorisation lu alone");
    }
    if (cell.kind == Factorisation::cholesky && cell.scale == Scale::two_sided) {
        throw usage_error("a matrix with separately scaled rows and columns is not symmetric", "--scale two-sided",
                          "use symmetric, scalar or none with --factorisation cholesky");
    }
}

}  // namespace

void require_possible(const SolveGrid& grid) {
    const auto& kinds = grid.factorisations;
    if (grid.shift != 0 && std::find(kinds.begin(), kinds.end(), Factorisation::cholesky) == kinds.end()) {
        throw usage_error("only cholesky shifts the matrix", "--shift", "add --factorisation cholesky");
    }
    for (const Cell& cell : cells_of(grid)) {
        require_of_kind(grid, cell);
        const LuPlan lu = lu_plan(grid, cell);
        if (*cell.machine && grid.block == 0) {
            throw usage_error("a machine is used only in blocked LU", "--machine",
                              "add --lu block:NB, such as block:32");
        }
        if (const std::string why = why_no_update(lu); grid.block > 0 && !why.empty()) {
            throw usage_error(why, fmt::format("--machine {}", (*cell.machine)->name), "see `macheps machine list`");
        }
        const RefinePlan plan = refine_plan(grid, cell, Method::gmres_ir);
        const auto require = [&](const Format& wide, const Format& narrow, const char* option, const char* of) {
            if (holds(wide, narrow)) return;
            throw usage_error(fmt::format("{} cannot hold every number of {}, {}", solver_format_name(wide),
                                          solver_format_name(narrow), of),
                              option, "use a wider format");
        };
        require(plan.substitution, cell.factor, "--substitution", "the format of the factors");
        require(plan.residual, plan.work, "--residual", "the format of x");
        require(plan.precond, plan.work, "--precond", "the format of the matrix");
    }
    for (const std::int64_t n : grid.sizes) {
        if (n < 1 || n > max_stored_size) {
            throw usage_error(fmt::format("the size is not from 1 to {}", max_stored_size), "-n",
                              "use a size in this range");
        }
    }
}

SolveCost cost_of(const SolveGrid& grid, int threads) {
    SolveCost cost;
    std::int64_t largest = 1;
    for (const MatrixChoice& choice : grid.matrices) {
        std::vector<std::int64_t> sizes = grid.sizes;
        if (choice.name == "file") sizes = {make_matrix(choice, 0, 0).n};
        const std::vector<Cell> cells = cells_of(grid);
        for (const std::int64_t n : sizes) {
            cost.rows += grid.seeds.size() * cells.size() * grid.methods.size();
            const auto size = static_cast<double>(n), seeds = static_cast<double>(grid.seeds.size());
            for (const Cell& cell : cells) cost.flops += seeds * row_of(cell.kind).flops * size * size * size;
            largest = std::max(largest, n);
        }
    }
    // The memory for A, its factors and copies in fp64. In addition, each thread needs the matrix and its factors with
    // 113 digits, and the basis of GMRES.
    cost.bytes = static_cast<double>(largest) * static_cast<double>(largest) * (8 * 6 + 80.0 * threads);
    return cost;
}

void run_solve(ThreadPool& pool, const SolveGrid& grid, const std::function<void(const reports::SolveRow&)>& row,
               const std::function<void(const reports::SolveStepRow&)>& steps,
               const std::function<void(const std::string&)>& before) {
    const std::vector<Cell> cells = cells_of(grid);
    for (const MatrixChoice& choice : grid.matrices) {
        std::vector<std::int64_t> sizes = grid.sizes;
        if (choice.name == "file") sizes = {0};
        for (const std::int64_t n : sizes) {
            for (const std::int64_t seed : grid.seeds) {
                if (before)
                    before(choice.text + (n > 0 ? fmt::format(", n = {}", n) : "") + fmt::format(", seed {}", seed));
                const Problem problem = problem_of(grid, choice, n, seed, pool);
                std::vector<CellRows> results(cells.size());
                // A single cell uses all threads for its factorisation. Several cells are distributed over the threads,
                // and nested calls of the pool run serially.
                pool.run(static_cast<std::int64_t>(cells.size()), [&](std::int64_t i) {
                    results[static_cast<std::size_t>(i)] =
                        run_cell(grid, problem, cells[static_cast<std::size_t>(i)], pool);
                });
                for (const CellRows& each : results) {
                    for (const reports::SolveStepRow& step : each.steps) {
                        if (steps) steps(step);
                    }
                    for (const reports::SolveRow& one : each.rows) row(one);
                }
            }
        }
    }
}

}  // namespace macheps::study
