// SPDX-License-Identifier: Apache-2.0
// What a report says of a sweep, or of many run directories: a row for each setting and policy, a curve of its gap, and which learning rate was best.
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

/// A gap by step, over seeds: mean, least and greatest of each stretch of steps. Of bounded size, however many the runs.
class GapCurve {
  public:
    struct Point {
        double step = 0, mean = 0, least = 0, greatest = 0;
    };
    static constexpr std::size_t most_points = 48;

    /// One run's steps, with those of its baseline.
    void add(const std::vector<StepRow>& steps, const std::vector<StepRow>& baseline, std::int64_t all_steps);
    /// Stretches in which some gap was finite.
    std::vector<Point> points() const;

  private:
    struct Stretch {
        double sum = 0, least = 0, greatest = 0;
        std::int64_t runs = 0;
    };
    std::array<Stretch, most_points> stretches_{};
    double length_ = 0;  ///< steps of a stretch
};

struct SweepRow {
    std::vector<std::string> values{};  ///< of each axis
    std::size_t setting = 0;            ///< counts the settings in the plan's order
    PolicySummary policy{};
    GapCurve curve{};
};

/// What the runs stand in: one of it, and several.
struct PartWords {
    const char *one = "unit", *many = "units";
};

struct SweepSummary {
    std::string name{};
    std::vector<std::string> axes{};
    std::vector<SweepRow> rows{};  ///< setting by setting, fp32 first
    PartWords parts{};
    std::size_t settings = 0, units = 0, missing = 0, runs = 0;  ///< units: of `parts`
    double seconds = 0;                                          ///< of all runs
    double margin = DivergenceRules::equivalence_margin;
    std::vector<std::string> notes{};
};

/// Of a policy, everything but the learning rate kept: the rate with the least loss, and fp32's.
struct BestRate {
    std::string policy{};
    std::vector<std::string> others{};  ///< values of the other axes
    std::string rate{}, fp32_rate{};
    double loss = 0;
    bool moved = false;
};
/// Empty where no axis is `lr`.
std::vector<BestRate> best_rates(const SweepSummary& sweep);

/// The axis's value as a number, where it is one.
std::optional<double> axis_number(const std::string& value);

/// summary.csv: the columns of SummaryRow, then the axes.
std::string sweep_summary_csv(const SweepSummary& sweep);
/// An aligned line for each setting and policy.
std::string sweep_summary_text(const SweepSummary& sweep);

}  // namespace macheps::reports
