// SPDX-License-Identifier: Apache-2.0
// RunRows: receives the rows of one run. The files of a directory hold whole runs, one after the other. If a run trains
// at the same time as an earlier run, its rows are held in memory until the earlier run is over.
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

/// One thread appends rows; another thread may call open().
class RunRows {
  public:
    /// Holds rows in memory until open() is called.
    RunRows() = default;
    /// Writes rows to the files immediately.
    explicit RunRows(RunFiles& files) : files_(&files) {}

    /// Writes the held rows to `files`. Rows that are appended later are written immediately. `files` must outlive this
    /// object. Call it when all earlier runs are over.
    void open(RunFiles& files);
    /// Returns true if rows are written to files instead of being held. Once true, this stays true.
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
    /// Returns the lengths and checksums of the files, not including rows that have not been flushed. is_open() must be
    /// true.
    std::array<reports::csv::FileMark, row_files.size()> marks() const { return files_.load()->marks(); }
    /// Writes the row of the finished run to runs.csv, or holds it until open() is called.
    void end_run(const reports::RunRow& row);

    /// Announces that open() will not be called. The run whose rows this object holds can then never be written, so its
    /// thread may stop training.
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
