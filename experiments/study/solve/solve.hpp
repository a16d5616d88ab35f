// SPDX-License-Identifier: Apache-2.0
// Solves linear systems for every combination of matrices, sizes, seeds, factor formats, machines, scalings and
// methods. Each combination gives one result row.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/matmul/machine_spelling.hpp"
#include "experiments/study/solve/gallery.hpp"
#include "experiments/study/solve/refine.hpp"
#include "reports/rows/solve_row.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace macheps::study {

/// Settings of run_solve, which computes every combination of the elements of the lists. The methods vary fastest.
struct SolveGrid {
    std::vector<MatrixChoice> matrices{};
    std::vector<std::int64_t> sizes{100}, seeds{0};
    std::vector<Format> factors{};
    std::vector<Factorisation> factorisations{Factorisation::lu};
    std::vector<std::optional<SpelledRule>> machines{std::nullopt};  ///< for blocked updates
    std::vector<Scale> scales{};                                     ///< empty: two_sided, or symmetric for Cholesky
    std::vector<Method> methods{};
    std::optional<Format> substitution{};  ///< absent: the format of the factors
    Format work = fp64;
    /// Defaults: `gmres` is `work`. `residual` and `precond` are fp128 if `work` is fp64, and fp64 otherwise.
    std::optional<Format> residual{}, gmres{}, precond{};
    std::int64_t block = 0;  ///< columns per panel; 0: right-looking
    std::optional<Format> operands{},
        accumulator{};  ///< formats of blocked updates; `accumulator` absent: fp64 if the factors are fp64, else fp32
    bool pivots = true, fused = false;
    double shift = 0;  ///< for Cholesky: multiplies diagonal elements by 1 + shift u (u: unit roundoff of the factors)
    Stop stop = Stop::residual;
    int max_steps = 30;
    double gmres_tolerance = 1e-4;
};

/// Returns the format with this name. fp128 is accepted only if `is_wide` is true. Errors: throws Error (usage) for an
/// unknown name, and for a format to which these algorithms cannot round (is_rounded_here): a format without sign or
/// fraction, or with more than 25 digits, except fp64.
Format solver_format(std::string_view name, std::string_view option, bool is_wide = false);
std::string solver_format_name(const Format& format);

/// Throws Error (usage) if a combination of the grid is impossible. Examples: the machine does not accept the operands,
/// the format of the substitution cannot hold the factors, or residuals are narrower than x.
void require_possible(const SolveGrid& grid);

struct SolveCost {
    std::size_t rows = 0;
    double flops = 0;  ///< operations of all factorisations, in the formats of the factors
    double bytes = 0;  ///< for the largest system
};
SolveCost cost_of(const SolveGrid& grid, int threads);

/// Computes all combinations of the grid, in order. `row` receives each result row. If given, `steps` receives a row
/// for each iterate, before the result row. If given, `before` receives a description of each matrix before it is
/// solved. Rows are the same for every number of threads.
void run_solve(ThreadPool& pool, const SolveGrid& grid, const std::function<void(const reports::SolveRow&)>& row,
               const std::function<void(const reports::SolveStepRow&)>& steps = {},
               const std::function<void(const std::string&)>& before = {});

}  // namespace macheps::study
