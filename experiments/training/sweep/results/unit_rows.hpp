// SPDX-License-Identifier: Apache-2.0
// The rows of finished units, cell by cell in the plan's order: of each run from the first unit that has it, whatever the
// shards were, and whoever trained it when. Only the units of one cell are in memory at a time.
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

/// A run of a cell, with its rows in each of the files that were asked for, in their order.
struct RunRowsText {
    std::size_t policy = 0;  ///< index into Sweep::policies
    std::size_t unit = 0;    ///< index into Sweep::units
    std::vector<std::string_view> rows{};
};

struct CellRowsText {
    const SweepCell& cell;
    std::vector<std::string> headers{};  ///< of the files, without line ends; empty where no unit has such a file
    std::vector<RunRowsText> runs{};     ///< in the plan's order; without those of units that are not finished
};

class FinishedUnits {
  public:
    /// Reads the mark of every unit that the plan needs. Errors: Exit::bad_input for a damaged mark.
    FinishedUnits(const Sweep& sweep, std::filesystem::path out);

    /// Indices into Sweep::units, in their order.
    const std::vector<std::size_t>& missing() const { return missing_; }
    const std::map<std::size_t, Done>& done() const { return done_; }
    /// Of finished units that were trained a second time and came out with other rows.
    const std::vector<Failure>& conflicts() const { return conflicts_; }
    /// `macheps 0.1.0 (1234abcd)` of every program that finished one of them, the first one first.
    const std::vector<std::string>& programs() const { return programs_; }
    /// Finished, or begun, for an earlier plan.
    std::size_t not_of_this_plan() const { return not_of_this_plan_; }

    enum class Trust { is_checked, is_trusted };
    /// Hands over cell after cell. Errors: throws Error, Exit::check_failed, naming unit, file and row, for a file that is
    /// not what its mark says, for fp32 rows that differ between units of one cell, and for columns that differ.
    void for_each_cell(const std::vector<std::string_view>& files, Trust trust,
                       const std::function<void(const CellRowsText&)>& take) const;

  private:
    /// fp32 stands in every unit: where the one that it is taken from is missing, another one of its cell has it.
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
