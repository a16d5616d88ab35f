// SPDX-License-Identifier: Apache-2.0
// RunRows: the destination of the rows of one run. The files of a directory hold whole runs, one after the other. A run
// that trains at the same time as an earlier one keeps its rows in memory until the earlier one is over.
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

/// One thread appends; another one may call open().
class RunRows {
  public:
    /// Holds the rows in memory until open().
    RunRows() = default;
    /// Writes the rows to the files at once.
    explicit RunRows(RunFiles& files) : files_(&files) {}

    /// Writes the held rows to `files`, which must outlive this object, and then all rows that follow. Call it when it
    /// is the turn of this run.
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
    /// Returns the lengths and checksums of the files, without rows that are not flushed yet. The rows must be open.
    std::array<reports::csv::FileMark, row_files.size()> marks() const { return files_.load()->marks(); }
    /// Writes the last row of the run.
    void end_run(const reports::RunRow& row);

    /// Declares that nobody will open these rows, so that their writer may stop.
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
