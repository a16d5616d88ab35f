// SPDX-License-Identifier: Apache-2.0
// RunFiles: the CSV files of a run directory, open for appending rows.
#pragma once
#include "experiments/training/run/checkpoint.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <array>
#include <filesystem>
#include <tuple>

namespace macheps::training {

/// One CSV writer for each row type in a std::tuple of row types.
template <class Rows>
struct RowWriters;
template <class... Row>
struct RowWriters<std::tuple<Row...>> {
    explicit RowWriters(const std::filesystem::path& directory) : each(directory / Row::file...) {}

    template <class Call>
    void for_each(const Call& call) {
        std::apply([&](auto&... writer) { (call(writer), ...); }, each);
    }

    std::tuple<reports::CsvWriter<Row>...> each;
};

class RunFiles {
  public:
    explicit RunFiles(const std::filesystem::path& directory)
        : runs_(directory / reports::RunRow::file), growing_(directory) {}

    template <class Row>
    void append(const Row& row) {
        std::get<reports::CsvWriter<Row>>(growing_.each).append(row);
    }
    void flush();
    /// Returns the lengths and checksums of the `row_files`, not including rows that have not been flushed.
    std::array<reports::csv::FileMark, row_files.size()> marks() const;
    /// Writes the row of a finished run to runs.csv, after all its other rows have been written to disk. If runs.csv
    /// contains a run, the rows of this run in the other files are therefore complete.
    void end_run(const reports::RunRow& row);

  private:
    reports::CsvWriter<reports::RunRow> runs_;
    RowWriters<reports::GrowingRows> growing_;
};

}  // namespace macheps::training
