// SPDX-License-Identifier: Apache-2.0
// The summary of a sweep, or of many run directories: a row and a gap curve for each setting and policy, and the best
// learning rates.
#pragma once
#include "reports/findings/divergence.hpp"

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
};

/// The learning rate at which a policy has its lowest loss, and the one at which fp32 has its lowest loss, for fixed
/// values of all other axes.
struct BestRate {
    std::string policy{};
    std::vector<std::string> others{};  ///< values of the other axes
    std::string rate{}, fp32_rate{};
    double loss = 0;
    bool moved = false;
};
/// Returns the best rates, or nothing if no axis is `lr`.
std::vector<BestRate> best_rates(const SweepSummary& sweep);

/// Returns the value of an axis as a number, or nothing if it is not a number. Powers of two may be written as `2^-10`.
std::optional<double> axis_number(const std::string& value);

/// Returns the text of summary.csv: the columns of SummaryRow, then the axes.
std::string sweep_summary_csv(const SweepSummary& sweep);
/// Returns an aligned line for each setting and policy.
std::string sweep_summary_text(const SweepSummary& sweep);

}  // namespace macheps::reports
