// SPDX-License-Identifier: Apache-2.0
// The summary of a sweep, or of many run directories: a row and a gap curve for each setting and policy, the best
// learning rates, and warnings.
#pragma once
#include "reports/findings/divergence.hpp"
#include "reports/logs/method_facts.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::reports {

/// The gap as a function of the step. The steps are divided into intervals of equal length, and each interval has a
/// mean, a minimum and a maximum over seeds. The size of the curve does not depend on the number of runs.
class GapCurve {
  public:
    struct Point {
        double step = 0, mean = 0, least = 0, greatest = 0;
    };
    static constexpr std::size_t max_points = 48;

    /// Adds the steps of one run and of its baseline. The first call derives the intervals from `all_steps`.
    void add(const std::vector<StepRow>& steps, const std::vector<StepRow>& baseline, std::int64_t all_steps);
    /// Returns a point for each interval in which at least one gap was finite.
    std::vector<Point> points() const;

  private:
    struct Stretch {
        double sum = 0, least = 0, greatest = 0;
        std::int64_t runs = 0;
    };
    std::array<Stretch, max_points> stretches_{};
    double length_ = 0;  ///< number of steps in an interval
};

struct SweepRow {
    std::vector<std::string> values{};  ///< one for each axis
    std::size_t setting = 0;            ///< index among the settings that have rows
    PolicySummary policy{};
    GapCurve curve{};
};

/// The word for a part of a sweep (`unit`, `run directory`), in singular and plural.
struct PartWords {
    const char *one = "unit", *many = "units";
};

struct SweepSummary {
    std::string name{};
    std::vector<std::string> axes{};
    std::vector<SweepRow> rows{};  ///< grouped by setting, with fp32 first in each group
    PartWords parts{};
    std::size_t settings = 0, units = 0, missing = 0, runs = 0;  ///< `units` counts units or run directories
    double seconds = 0;                                          ///< sum over all runs
    double margin = DivergenceRules::equivalence_margin;
    std::vector<std::string> notes{};
    MethodFacts methods{};
};

/// The place of the best value of an axis among the values that were tried.
enum class GridPlace { inside, smallest, largest };
/// Returns the name of the enumerator.
std::string place_words(GridPlace place);

/// The value of the tuned axis at which a policy has its lowest loss, and the one at which fp32 has its lowest loss, for
/// fixed values of all other axes.
struct BestValue {
    std::string policy{};
    std::vector<std::string> others{};  ///< values of the other axes
    std::string value{}, fp32_value{};  ///< empty if every run diverged
    double loss = 0, fp32_loss = 0;     ///< mean over the seeds; NaN without a value
    GridPlace place = GridPlace::inside;
    bool moved = false;
    std::vector<double> seed_gaps{};  ///< loss minus the best loss of fp32, for each seed that both have
};
/// The axis whose best value is reported, and the best values. `axis` is an index into SweepSummary::axes.
struct BestValues {
    std::optional<std::size_t> axis{};
    std::vector<BestValue> rows{};
};
/// Returns the best values. The axis is the first of lr, min-lr, warmup, weight-decay, clip, beta1, beta2, eps and
/// momentum that is an axis with at least two numbers and no other values. If there is no such axis, returns nothing.
BestValues best_values(const SweepSummary& sweep);

/// Returns whether a run of the sweep failed.
bool has_failed_runs(const SweepSummary& sweep);

/// Returns the number of steps over which the losses are averaged: "50 steps", or "25 to 50 steps". Policies with failed
/// runs, which may have ended early, do not count if there are others.
std::string window_words(const SweepSummary& sweep);

/// Returns a sentence for each reason to doubt the results: runs that diverged, skipped steps, limits of the verdicts,
/// few steps or seeds, policies that differ from fp32 in more than precision, and best values at an end of the grid.
std::vector<std::string> sweep_warnings(const SweepSummary& sweep, const BestValues& best);

/// A table of texts, as stdout, the page and a paper show it.
struct TextTable {
    enum class Kind { text, number, gap };  ///< a gap has the form of gap_words()
    struct Column {
        std::string heading{};
        Kind kind = Kind::text;
    };
    std::vector<Column> columns{};
    std::vector<std::vector<std::string>> rows{};
};
/// Returns the table of settings and policies, and its explanation in sentences.
TextTable sweep_table(const SweepSummary& sweep);
std::vector<std::string> sweep_notes(const SweepSummary& sweep);
/// Returns the gap of a best value in the form of gap_words().
std::string best_gap_words(const BestValue& best);
/// Returns the table of best values, and its explanation in sentences.
TextTable best_table(const SweepSummary& sweep, const BestValues& best);
std::vector<std::string> best_notes(const SweepSummary& sweep, const BestValues& best);

/// Returns the value of an axis as a number, or nothing if it is not a number. Powers of two may be written as `2^-10`.
std::optional<double> axis_number(const std::string& value);

/// Returns the text of summary.csv: the columns of SummaryRow, then the axes.
std::string sweep_summary_csv(const SweepSummary& sweep);
/// Returns both tables in aligned lines, and the warnings.
std::string sweep_summary_text(const SweepSummary& sweep);

}  // namespace macheps::reports
