// SPDX-License-Identifier: Apache-2.0
// RunRows: where one run writes its rows. The files of a directory hold whole runs one after the other; a run that trains
// beside an earlier one keeps its rows in memory until that one is over.
#pragma once
#include "experiments/training/run/directory/run_files.hpp"
#include "reports/rows/event.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace macheps::training {

/// One thread appends, another one may open().
class RunRows {
  public:
    /// Rows are held.
    RunRows() = default;
    /// Rows go to the files at once.
    explicit RunRows(RunFiles& files) : files_(&files) {}

    /// It is this run's turn: what was held goes to `files`, which outlives this, and so does all that follows.
    void open(RunFiles& files);
    /// Once true, always true.
    bool is_open() const { return files_.load() != nullptr; }

    template <class Row>
    void append(const Row& row) {
        const std::lock_guard lock(mutex_);
        if (RunFiles* files = files_.load()) {
            files->append(row);
        } else {
            std::get<std::vector<Row>>(held_).push_back(row);
        }
    }
    void flush();
    /// Lengths of the files once they are flushed. Only of open rows.
    std::array<reports::csv::FileMark, row_files.size()> marks() const { return files_.load()->marks(); }
    /// The run's last row.
    void end_run(const reports::RunRow& row);

    /// Nobody will open these rows: whoever writes them may end.
    void abandon() { abandoned_ = true; }
    bool is_abandoned() const { return abandoned_; }

  private:
    template <class Rows>
    struct Lists;
    template <class... Row>
    struct Lists<std::tuple<Row...>> {
        using type = std::tuple<std::vector<Row>...>;
    };

    std::mutex mutex_;
    std::atomic<RunFiles*> files_{nullptr};
    Lists<reports::GrowingRows>::type held_;
    std::optional<reports::RunRow> end_;
    std::atomic<bool> abandoned_{false};
};

}  // namespace macheps::training
