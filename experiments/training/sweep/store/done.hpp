// SPDX-License-Identifier: Apache-2.0
// `done`: the mark of a finished unit, which is the last file to be written. It records checksums of every file of
// rows. If a byte of these files changes later, the change is detected, and the error names the row.
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
/// Returns the number of the line in which `now` differs from `before`, where the header is line 1. Returns nothing
/// unless exactly one line differs.
std::optional<std::uint64_t> changed_line(const RowsMark& before, const RowsMark& now);

struct Done {
    std::string id{}, host{}, created_by{}, git{};  ///< the unit, and the machine and program that finished it
    int attempt = 0;
    std::int64_t schema = 0;
    double seconds = 0;             ///< time of the steps in all attempts
    std::uint64_t same_rows = 0;    ///< checksum of all rows without times; does not depend on the machine
    std::vector<RowsMark> files{};  ///< each CSV file
};

/// Computes the mark of a run directory from its files of rows. Done::seconds is the sum of the seconds of its runs.
/// Errors: throws Error, Exit::bad_input, if another process removes the directory meanwhile.
Done make_done(const std::filesystem::path& folder, const std::string& id, int attempt);

/// Reads `done` in `folder`. Errors: throws Error, Exit::bad_input, if the file is missing or damaged.
Done read_done(const std::filesystem::path& folder);
/// Writes `done` in `folder`.
void write_done(const Done& done, const std::filesystem::path& folder);

/// Returns `runs.csv` without the columns that hold times.
std::string without_times(std::string_view runs);

}  // namespace macheps::training
