// SPDX-License-Identifier: Apache-2.0
// RunFiles: the files of rows of a run directory, open for appending.
#pragma once
#include "experiments/training/run/checkpoint.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <array>
#include <filesystem>
#include <tuple>

namespace macheps::training {

/// One writer for each row type in a list.
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
    /// Returns the lengths and checksums of the `row_files`, without rows that are not flushed yet.
    std::array<reports::csv::FileMark, row_files.size()> marks() const;
    /// Writes the row of a run that is over, after the rows of its steps. It shows that all the others are there.
    void end_run(const reports::RunRow& row);

  private:
    reports::CsvWriter<reports::RunRow> runs_;
    RowWriters<reports::GrowingRows> growing_;
};

}  // namespace macheps::training
