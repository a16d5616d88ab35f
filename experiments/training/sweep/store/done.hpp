// SPDX-License-Identifier: Apache-2.0
// `done`: the mark of a finished unit. It is written last, and records every file of rows as it was when the unit was
// finished. If a byte changes later, the change is found and its row is named.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// Record of a file of rows. `sum` is the sum of the checksums h(1), h(2), ... of its lines, and `weighted` the sum of
/// i h(i), modulo 2^64. If only line i was changed, `weighted` has changed by i times as much as `sum`.
struct RowsMark {
    std::string name{};
    std::uint64_t bytes = 0, checksum = 0, lines = 0, sum = 0, weighted = 0;

    bool operator==(const RowsMark&) const = default;
};

RowsMark mark_of_rows(const std::string& name, std::string_view text);
/// Returns the line in which `now` differs from `before` (the header is line 1); nothing if they do not differ in
/// exactly one line.
std::optional<std::uint64_t> changed_line(const RowsMark& before, const RowsMark& now);

struct Done {
    std::string id{}, host{}, created_by{}, git{};  ///< the unit, and the machine and program that finished it
    int attempt = 0;
    std::int64_t schema = 0;
    double seconds = 0;             ///< of the steps of all attempts
    std::uint64_t same_rows = 0;    ///< checksum of all rows without times: equal wherever the unit is trained
    std::vector<RowsMark> files{};  ///< each CSV file
};

/// Reads the files of rows of a run directory. `done.seconds` is the sum of the seconds of its runs. Errors: throws
/// Error, Exit::bad_input, if the directory is removed meanwhile.
Done make_done(const std::filesystem::path& folder, const std::string& id, int attempt);

/// Reads and writes `done` in `folder`. Errors: throws Error, Exit::bad_input, if it is missing or damaged.
Done read_done(const std::filesystem::path& folder);
void write_done(const Done& done, const std::filesystem::path& folder);

/// Returns `runs.csv` without the columns that hold times.
std::string without_times(std::string_view runs);

}  // namespace macheps::training
