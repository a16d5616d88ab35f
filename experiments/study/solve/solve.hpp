// SPDX-License-Identifier: Apache-2.0
// Linear systems over a grid: matrices, sizes, seeds, factor formats, machines, scalings and methods, a row for each.
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

/// Every combination of what the lists hold, methods innermost.
struct SolveGrid {
    std::vector<MatrixChoice> matrices{};
    std::vector<std::int64_t> sizes{100}, seeds{0};
    std::vector<Format> factors{};
    std::vector<Factorisation> factorisations{Factorisation::lu};
    std::vector<std::optional<SpelledRule>> machines{std::nullopt};  ///< of blocked updates
    std::vector<Scale> scales{};                                     ///< empty: two_sided, and symmetric of Cholesky
    std::vector<Method> methods{};
    std::optional<Format> substitution{};  ///< absent: the factor's
    Format work = fp64;
    /// Absent: fp128 and u and fp128 beside fp64; fp64 and u and fp64 beside a narrower u.
    std::optional<Format> residual{}, gmres{}, precond{};
    std::int64_t block = 0;  ///< columns of a panel; 0: right-looking
    std::optional<Format> operands{},
        accumulator{};  ///< of blocked updates without a machine; absent: the factor's, fp32
    bool pivots = true, fused = false;
    double shift = 0;  ///< of Cholesky: the diagonal grows by this many unit roundoffs of the factor's format
    Stop stop = Stop::residual;
    int max_steps = 30;
    double gmres_tolerance = 1e-4;
};

/// A format by name, fp128 among them where `is_wide`. Errors: throws Error (usage), also for formats that these algorithms
/// do not round to: those without sign and fraction, and those of more than 25 digits other than fp64.
Format solver_format(std::string_view name, std::string_view option, bool is_wide = false);
std::string solver_format_name(const Format& format);

/// Throws Error (usage) where some combination of a grid means nothing: a machine that does not take the factor's format,
/// factors that the substitution cannot hold, residuals narrower than x.
void require_possible(const SolveGrid& grid);

struct SolveCost {
    std::size_t rows = 0;
    double flops = 0;  ///< in the factors' formats
    double bytes = 0;  ///< of the largest system
};
SolveCost cost_of(const SolveGrid& grid, int threads);

/// Runs the grid in its order. `row` receives each system's row, `steps`, where it is given, each x of it before that;
/// `before` what comes next, in words. The same rows for every number of threads.
void run_solve(ThreadPool& pool, const SolveGrid& grid, const std::function<void(const reports::SolveRow&)>& row,
               const std::function<void(const reports::SolveStepRow&)>& steps = {},
               const std::function<void(const std::string&)>& before = {});

}  // namespace macheps::study
