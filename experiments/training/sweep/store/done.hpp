// SPDX-License-Identifier: Apache-2.0
// `done`: the mark of a finished unit. It is written last, and says what every file of rows was when the unit was finished,
// so that any byte that changes later is found and its row named.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// What a file of rows was. Of its lines' checksums h(0), h(1), ... it keeps the sum, and the sum of i h(i), modulo 2^64:
/// where one line i was changed, the second sum has changed by i times what the first one has.
struct RowsMark {
    std::string name{};
    std::uint64_t bytes = 0, checksum = 0, lines = 0, sum = 0, weighted = 0;

    bool operator==(const RowsMark&) const = default;
};

RowsMark mark_of_rows(const std::string& name, std::string_view text);
/// Which line (the first one, the header, is 1) makes `now` differ from `before`; nothing where it is not one line alone.
std::optional<std::uint64_t> changed_line(const RowsMark& before, const RowsMark& now);

struct Done {
    std::string id{}, host{}, created_by{}, git{};  ///< of whom it was finished
    int attempt = 0;
    std::int64_t schema = 0;
    double seconds = 0;             ///< of all attempts' steps
    std::uint64_t same_rows = 0;    ///< of all rows but the columns that hold times: equal wherever the unit is trained
    std::vector<RowsMark> files{};  ///< each CSV file
};

/// Reads the files of rows of a run directory. `done.seconds` is the sum of the seconds of its runs. Errors: throws Error,
/// Exit::bad_input, if the directory is removed meanwhile.
Done make_done(const std::filesystem::path& folder, const std::string& id, int attempt);

/// Reads and writes `done` in `folder`. Errors: throws Error, Exit::bad_input, for what is missing or damaged.
Done read_done(const std::filesystem::path& folder);
void write_done(const Done& done, const std::filesystem::path& folder);

/// `runs.csv` without the columns that hold times.
std::string without_times(std::string_view runs);

}  // namespace macheps::training
