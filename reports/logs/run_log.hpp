// SPDX-License-Identifier: Apache-2.0
// Run directories read back into memory: what the summary and the page are made of.
#pragma once
#include "reports/logs/site_figures.hpp"
#include "reports/rows/formula_row.hpp"
#include "reports/rows/gemm_row.hpp"
#include "reports/rows/solve_row.hpp"
#include "reports/rows/sum_row.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace macheps::reports {

/// One run with all its rows, each list in the order of its file.
struct RunLog {
    RunRow row{};
    std::string policy{};    ///< as shown: row.policy, or `policy@folder` where two folders disagree
    std::size_t folder = 0;  ///< index into Log::folders
    std::vector<StepRow> steps{};
    std::vector<EvalRow> evals{};
    std::vector<SiteRow> sites{};
    std::vector<ExponentRow> exponents{};
    std::optional<SiteFigures> site_figures{};  ///< where the rows of `sites` were not kept
    std::optional<std::size_t> baseline{};      ///< index of the fp32 run of the same seed; its own for an fp32 run

    /// Where rows of each type go.
    static constexpr auto lists = std::tuple(&RunLog::steps, &RunLog::evals, &RunLog::sites, &RunLog::exponents);
};

struct RunFolder {
    std::filesystem::path path{};
    std::string manifest{};  ///< JSON text; empty when there is no manifest.json
};

struct Log {
    std::vector<RunFolder> folders{};
    std::vector<RunLog> runs{};
    std::vector<std::filesystem::path> row_files{};  ///< of experiments without a run
    std::vector<GemmRow> gemm{};                     ///< of all row_files, in their order, as are the next
    std::vector<SumRow> sums{};
    std::vector<SolveRow> systems{};
    std::vector<SolveStepRow> system_steps{};
    std::vector<FormulaRow> formulas{};
    std::vector<FormulaPointRow> formula_points{};
    std::vector<std::string> notes{};  ///< in words: what was odd but readable

    /// The kinds of row_files: a list each, and the verb that writes it.
    template <class Row>
    struct Kind {
        std::vector<Row> Log::*rows;
        std::string_view verb;
    };
    static constexpr auto kinds = std::tuple(
        Kind<GemmRow>{&Log::gemm, "gemm"}, Kind<SumRow>{&Log::sums, "sum"}, Kind<SolveRow>{&Log::systems, "solve"},
        Kind<SolveStepRow>{&Log::system_steps, "solve --steps"}, Kind<FormulaRow>{&Log::formulas, "eval"},
        Kind<FormulaPointRow>{&Log::formula_points, "eval --points-out"});

    /// Policies as shown, the baseline first, then in the order of their first run.
    std::vector<std::string> policies() const;
};

/// The policy that every other one is compared with.
inline constexpr std::string_view baseline_policy = "fp32";

/// What is kept in memory of many directories. The rows of sites and exponents are the bulk of a run directory: without
/// them a log takes some 250 bytes for each step of each run, and a summary of it is the same.
enum class Keep : bool { all, summary };

/// Reads run directories and joins them; a CSV file, or one of that name in a directory, holds rows of one of Log::kinds,
/// which its first columns tell, and a directory may have nothing else. A directory in which training has begun is always readable: each of its files
/// may be absent, empty, or end in half a line, as a run in its first moments leaves them, and a note says so. A run with
/// steps and no row in runs.csv is unfinished and is kept.
/// The same policy and seed in two directories is one run when its losses agree; otherwise the later policy is shown as
/// `policy@folder`. A run's baseline is the fp32 run of its seed in its own directory, else in the first that has one.
/// Errors: throws Error, Exit::bad_input, for a missing directory or file and for damaged rows.
Log read_runs(std::span<const std::filesystem::path> folders, Keep keep = Keep::all);

/// Throws Error, Exit::bad_input, for a folder that is missing, or in which no training has begun.
void check_is_run(const std::filesystem::path& folder);

/// Rows of schema 1, which lack `loss_rounded`, hold fp32 numbers: they are to mean what they meant to the program that
/// wrote them.
void read_as_schema_1(StepRow& step);

/// Reads the rows of sites and exponents of those policies' runs (names as shown) into a log that was read without.
/// Returns notes. Errors: as read_runs.
std::vector<std::string> read_samples(Log& log, std::span<const std::string> policies);

}  // namespace macheps::reports
