// SPDX-License-Identifier: Apache-2.0
// Linear systems over a grid of matrices, sizes, seeds, factor formats, machines, scalings and methods, with a row for
// each.
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

/// Every combination of the elements of the lists, methods innermost.
struct SolveGrid {
    std::vector<MatrixChoice> matrices{};
    std::vector<std::int64_t> sizes{100}, seeds{0};
    std::vector<Format> factors{};
    std::vector<Factorisation> factorisations{Factorisation::lu};
    std::vector<std::optional<SpelledRule>> machines{std::nullopt};  ///< for blocked updates
    std::vector<Scale> scales{};                                     ///< empty: two_sided, or symmetric for Cholesky
    std::vector<Method> methods{};
    std::optional<Format> substitution{};  ///< absent: that of the factor
    Format work = fp64;
    /// Defaults if absent, with u = `work`: fp128, u and fp128 if u is fp64, else fp64, u and fp64.
    std::optional<Format> residual{}, gmres{}, precond{};
    std::int64_t block = 0;  ///< columns of a panel; 0: right-looking
    std::optional<Format> operands{},
        accumulator{};  ///< for blocked updates without a machine; absent: the factor's, and fp32 (fp64 for fp64)
    bool pivots = true, fused = false;
    double shift = 0;  ///< for Cholesky: each diagonal element grows by this many unit roundoffs of the factor's format
    Stop stop = Stop::residual;
    int max_steps = 30;
    double gmres_tolerance = 1e-4;
};

/// Returns a format by name; fp128 only if `is_wide`. Errors: throws Error (usage), also for formats that these
/// algorithms do not round to: those without sign and fraction, and those of more than 25 digits other than fp64.
Format solver_format(std::string_view name, std::string_view option, bool is_wide = false);
std::string solver_format_name(const Format& format);

/// Throws Error (usage) if a combination of the grid is meaningless: for example, a machine that does not take the
/// operands, factors that the substitution cannot hold, or residuals narrower than x.
void require_possible(const SolveGrid& grid);

struct SolveCost {
    std::size_t rows = 0;
    double flops = 0;  ///< in the formats of the factors
    double bytes = 0;  ///< for the largest system
};
SolveCost cost_of(const SolveGrid& grid, int threads);

/// Runs the grid in its order. `row` receives the row of each system. If given, `steps` receives each x of a system
/// before its row, and `before` a description of the next system. Rows are the same for every number of threads.
void run_solve(ThreadPool& pool, const SolveGrid& grid, const std::function<void(const reports::SolveRow&)>& row,
               const std::function<void(const reports::SolveStepRow&)>& steps = {},
               const std::function<void(const std::string&)>& before = {});

}  // namespace macheps::study
