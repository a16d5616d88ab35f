// SPDX-License-Identifier: Apache-2.0
// Rows of finished units, cell by cell in the order of the plan. Each run is taken from the first unit that has it,
// whatever the shards were, and whoever trained it. Only the units of one cell are in memory at a time.
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

/// A run of a cell, with its rows in each of the requested files, in their order.
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
    /// Reads the mark of every unit that the plan needs. Errors: Exit::bad_input for a damaged mark.
    FinishedUnits(const Sweep& sweep, std::filesystem::path out);

    /// Returns indices into Sweep::units, in ascending order.
    const std::vector<std::size_t>& missing() const { return missing_; }
    const std::map<std::size_t, Done>& done() const { return done_; }
    /// Returns the failures of finished units that were trained a second time with different rows.
    const std::vector<Failure>& conflicts() const { return conflicts_; }
    /// Returns `macheps 0.1.0 (1234abcd)` for every program that finished one of the units, in the order of the units.
    const std::vector<std::string>& programs() const { return programs_; }
    /// Returns the number of units of earlier plans that the current plan does not need.
    std::size_t not_of_this_plan() const { return not_of_this_plan_; }

    enum class Trust { is_checked, is_trusted };
    /// Passes one cell after the other to `take`. Errors: throws Error, Exit::check_failed, naming unit, file and row,
    /// if a checked file does not match its mark, if fp32 rows differ between units of one cell, or if columns differ.
    void for_each_cell(const std::vector<std::string_view>& files, Trust trust,
                       const std::function<void(const CellRowsText&)>& take) const;

  private:
    /// Every unit has fp32. If the unit from which it is taken is missing, takes it from another unit of the cell.
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
