// SPDX-License-Identifier: Apache-2.0
#include "core/host/memory_limit.hpp"

#include "core/field_error.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace macheps {

namespace {

namespace fs = std::filesystem;

/// Returns the first word of a file, or an empty text if the file cannot be read.
std::string word_in(const fs::path& path) {
    std::string word;
    std::ifstream(path) >> word;
    return word;
}

/// Returns the number in a file, or nothing if the file contains something else, such as `max`.
std::optional<std::int64_t> number_in(const fs::path& path) {
    const std::string word = word_in(path);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    return number;
}

/// Returns the smallest limit among a control group and its ancestors, or nothing if no limit is set. `mount` is where
/// the file system of the groups is mounted, `group` is the path of the group in it, and `file` is the name of the file
/// that contains the limit of a group.
std::optional<std::int64_t> min_of_groups(const fs::path& mount, fs::path group, const char* file) {
    std::optional<std::int64_t> least;
    const auto look = [&](const fs::path& folder) {
        const auto limit = number_in(folder / file);
        if (limit && (!least || *limit < *least)) least = limit;
    };
    for (group = group.relative_path(); !group.empty(); group = group.parent_path()) look(mount / group);
    look(mount);  // the root of all groups or, in a container, the container's own group
    return least;
}

std::optional<std::int64_t> group_limit() {
    std::optional<std::int64_t> least;
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        // A line such as `0::/path` belongs to version 2 of control groups, and `4:memory:/path` to version 1.
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == line.npos || second == line.npos) continue;
        const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
        const std::string path = line.substr(second + 1);
        std::optional<std::int64_t> limit;
        if (controllers == ",,") limit = min_of_groups("/sys/fs/cgroup", path, "memory.max");
        if (controllers.find(",memory,") != controllers.npos)
            limit = min_of_groups("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
        if (limit && (!least || *limit < *least)) least = limit;
    }
    return least;
}

/// Reads a decimal such as 1.5 and removes it from the front of the text. Returns nothing if there is none, or if it has
/// more than 18 digits.
std::optional<double> take_decimal(std::string_view& text) {
    std::uint64_t digits = 0;
    double divisor = 1;
    int count = 0;
    for (bool has_point = false; !text.empty(); text.remove_prefix(1)) {
        const char c = text.front();
        if (c == '.' && !has_point) {
            has_point = true;
        } else if (c >= '0' && c <= '9') {
            if (++count > 18) return std::nullopt;
            digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
            if (has_point) divisor *= 10;
        } else {
            break;
        }
    }
    if (count == 0) return std::nullopt;
    return static_cast<double>(digits) / divisor;
}

}  // namespace

MemoryLimit memory_limit() {
    MemoryLimit limit{INT64_MAX, "the limit is"};
    const auto take = [&](std::int64_t bytes, const char* whose) {
        if (bytes > 0 && bytes < limit.bytes) limit = {bytes, whose};
    };
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) take(static_cast<std::int64_t>(pages) * page, "this machine has");
    if (const auto bytes = group_limit()) take(*bytes, "this control group has");
    for (const auto kind : {RLIMIT_AS, RLIMIT_DATA}) {
        rlimit own{};
        if (getrlimit(kind, &own) == 0 && own.rlim_cur != RLIM_INFINITY && own.rlim_cur < INT64_MAX)
            take(static_cast<std::int64_t>(own.rlim_cur), "this process may use");
    }
    return limit;
}

std::uint64_t reading_budget() { return static_cast<std::uint64_t>(memory_limit().bytes) / 2; }

std::optional<std::int64_t> parse_bytes(std::string_view text) {
    const std::optional<double> read = take_decimal(text);
    if (!read) return std::nullopt;
    double number = *read;
    constexpr std::string_view units = "KMGTP";
    if (!text.empty() && text != "B") {
        const char letter = static_cast<char>(text.front() & ~0x20);  // to upper case
        const std::size_t unit = units.find(letter);
        text.remove_prefix(1);
        if (unit == units.npos || (!text.empty() && text != "B" && text != "iB")) return std::nullopt;
        for (std::size_t i = 0; i <= unit; ++i) number *= 1024;
    }
    if (!(number >= 1 && number < 0x1p62)) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

std::string bytes_text(double bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
    return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, units[unit]);
}

void require_memory(double needed, const std::optional<std::int64_t>& granted, std::string_view what) {
    const MemoryLimit limit = granted ? MemoryLimit{*granted, "`memory` allows"} : memory_limit();
    if (needed <= static_cast<double>(limit.bytes)) return;
    throw FieldError("memory",
                     fmt::format("{} needs about {}, but {} only {}", what, bytes_text(needed), limit.whose,
                                 bytes_text(static_cast<double>(limit.bytes))),
                     "use smaller sizes, or raise `memory` if you know that the work fits");
}

}  // namespace macheps
