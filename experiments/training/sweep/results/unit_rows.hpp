// SPDX-License-Identifier: Apache-2.0
// Reads the rows of finished units, cell by cell in the order of the plan. If several units contain a run, the rows of
// the first of these units are used. The result does not depend on the shards or on the machines that trained the
// units. Only the units of one cell are in memory at a time.
#pragma once
#include "experiments/training/sweep/run.hpp"
#include "experiments/training/sweep/store/done.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// A run of a cell, and its rows in each of the requested files. `rows` has one element for each file, in the order in
/// which the files were requested.
struct RunRowsText {
    std::size_t policy = 0;  ///< index into Sweep::policies
    std::size_t unit = 0;    ///< index into Sweep::units
    std::vector<std::string_view> rows{};
};

struct CellRowsText {
    const SweepCell& cell;
    std::vector<std::string> headers{};  ///< of the files, without line ends; empty if no unit has such a file
    std::vector<RunRowsText> runs{};     ///< in the order of the plan; without runs of unfinished units
};

class FinishedUnits {
  public:
    /// Reads the mark (`done`) of every unit that the plan needs. Errors: Exit::bad_input for a damaged mark.
    FinishedUnits(const Sweep& sweep, std::filesystem::path out);

    /// Returns the units that are not finished, as indices into Sweep::units in ascending order.
    const std::vector<std::size_t>& missing() const { return missing_; }
    const std::map<std::size_t, Done>& done() const { return done_; }
    /// Returns the failure records of finished units that were trained a second time with different rows.
    const std::vector<Failure>& conflicts() const { return conflicts_; }
    /// Returns the programs that finished the units, such as `macheps 0.1.0 (1234abcd)`, each once and in the order of
    /// the units.
    const std::vector<std::string>& programs() const { return programs_; }
    /// Returns the number of units of earlier plans that the current plan does not need.
    std::size_t not_of_this_plan() const { return not_of_this_plan_; }

    enum class Trust { is_checked, is_trusted };
    /// Passes one cell after the other to `take`. Errors: throws Error, Exit::check_failed, if a checked file does not
    /// match its mark, if fp32 rows differ between units of one cell, or if columns differ. The error names the unit,
    /// the file and, where possible, the row.
    void for_each_cell(const std::vector<std::string_view>& files, Trust trust,
                       const std::function<void(const CellRowsText&)>& take) const;

  private:
    /// Assigns each fp32 run whose unit is not finished to a finished unit of the same cell. This is possible because
    /// every unit contains fp32.
    void take_finished_baselines();

    const Sweep& sweep_;
    std::filesystem::path out_{};
    std::vector<SweepRun> runs_{};
    std::map<std::size_t, Done> done_;
    std::vector<std::size_t> missing_{};
    std::vector<Failure> conflicts_{};
    std::vector<std::string> programs_{};
    std::size_t not_of_this_plan_ = 0;
};

}  // namespace macheps::training
