// SPDX-License-Identifier: Apache-2.0
// Reads run directories and CSV files into memory, as input of the summary and the page.
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

/// One run with its rows. Each list has the order of the file.
struct RunLog {
    RunRow row{};
    std::string policy{};    ///< displayed name: row.policy, or `policy@folder` if the runs of two folders differ
    std::size_t folder = 0;  ///< index into Log::folders
    std::vector<StepRow> steps{};
    std::vector<EvalRow> evals{};
    std::vector<SiteRow> sites{};
    std::vector<ExponentRow> exponents{};
    std::optional<SiteFigures> site_figures{};  ///< set if the rows of `sites` were not kept
    std::optional<std::size_t> baseline{};      ///< index of the fp32 run of the same seed (may be this run)

    /// The members that hold the rows, one for each row type.
    static constexpr auto lists = std::tuple(&RunLog::steps, &RunLog::evals, &RunLog::sites, &RunLog::exponents);
};

struct RunFolder {
    std::filesystem::path path{};
    std::string manifest{};  ///< JSON text; empty without a manifest.json
};

struct Log {
    std::vector<RunFolder> folders{};
    std::vector<RunLog> runs{};
    std::vector<std::filesystem::path> row_files{};  ///< CSV files of experiments other than training
    std::vector<GemmRow> gemm{};                     ///< this and the next lists have the rows of all row_files
    std::vector<SumRow> sums{};
    std::vector<SolveRow> systems{};
    std::vector<SolveStepRow> system_steps{};
    std::vector<FormulaRow> formulas{};
    std::vector<FormulaPointRow> formula_points{};
    std::vector<std::string> notes{};  ///< problems that did not prevent reading, in words

    /// A type of rows in row_files: the list above that holds these rows, and the verb that writes their file.
    template <class Row>
    struct Kind {
        std::vector<Row> Log::*rows;
        std::string_view verb;
    };
    static constexpr auto kinds = std::tuple(
        Kind<GemmRow>{&Log::gemm, "gemm"}, Kind<SumRow>{&Log::sums, "sum"}, Kind<SolveRow>{&Log::systems, "solve"},
        Kind<SolveStepRow>{&Log::system_steps, "solve --steps"}, Kind<FormulaRow>{&Log::formulas, "eval"},
        Kind<FormulaPointRow>{&Log::formula_points, "eval --points-out"});

    /// Returns the displayed names of the policies: the baseline first, then in the order of their first run.
    std::vector<std::string> policies() const;
};

/// The policy with which all others are compared.
inline constexpr std::string_view baseline_policy = "fp32";

/// Whether the rows of sites and exponents are kept in memory. They are the largest part of a run directory. Without
/// them (`summary`), a log takes about 250 bytes for each step of each run. The summary of the log is the same.
enum class Keep : bool { all, summary };

/// Reads run directories and CSV files and joins them. A CSV file contains rows of one of Log::kinds, which its first
/// columns identify. A directory may contain such files under their default names, with or without a run.
/// A directory in which training has begun is always readable. Each of its files may be absent, be empty, or end in
/// the middle of a line, because a run may have stopped at any time. Notes report such files, except absent files that
/// only some runs write. A run with steps but without a row in runs.csv is unfinished and is kept.
/// Two runs of the same policy and seed count as one run if their losses agree. Otherwise the later policy is shown as
/// `policy@folder`. The baseline of a run is the fp32 run with the same seed in the same directory. If that directory
/// has no such run, the first directory that has one provides the baseline.
/// Errors: throws Error, Exit::bad_input, for a missing directory or file and for damaged rows.
Log read_runs(std::span<const std::filesystem::path> folders, Keep keep = Keep::all);

/// Returns whether the first columns of a file are those of one of Log::kinds.
bool has_measured_rows(const std::filesystem::path& file);

/// Throws Error, Exit::bad_input, if the folder is missing or if no training has begun in it.
void check_is_run(const std::filesystem::path& folder);

/// Rounds the losses of a row of schema 1 (a row without `loss_rounded`) to fp32. They were written as fp32 numbers, so
/// this restores the values that the program had.
void read_as_schema_1(StepRow& step);

/// Reads the rows of sites and exponents into a log that was read with Keep::summary, for the runs of the given
/// policies (displayed names). Returns notes. Throws the same errors as read_runs().
std::vector<std::string> read_samples(Log& log, std::span<const std::string> policies);

}  // namespace macheps::reports
