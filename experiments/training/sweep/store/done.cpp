// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/store/done.hpp"

#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/host/version.hpp"
#include "core/text/json.hpp"
#include "experiments/training/sweep/store/layout.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <type_traits>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_done_bytes = 1 << 20;
constexpr std::string_view times[] = {"seconds", "tokens_per_second"};

/// Passes each line of `text`, with its line end, to `take`.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        take(text.substr(0, end));
        text.remove_prefix(end);
    }
}

/// Returns the CSV cells of a line. Quotes are kept.
std::vector<std::string_view> cells_of(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    std::vector<std::string_view> cells;
    std::size_t from = 0;
    bool is_quoted = false;
    for (std::size_t i = 0; i <= line.size(); ++i) {
        if (i < line.size() && line[i] == '"') is_quoted = !is_quoted;
        if (i < line.size() && (line[i] != ',' || is_quoted)) continue;
        cells.push_back(line.substr(from, i - from));
        from = i + 1;
    }
    return cells;
}

Json json_of(const RowsMark& mark) {
    return {{"name", mark.name},
            {"bytes", mark.bytes},
            {"xxh64", reports::to_hex(mark.checksum)},
            {"lines", mark.lines},
            {"sum", reports::to_hex(mark.sum)},
            {"weighted", reports::to_hex(mark.weighted)}};
}

std::uint64_t from_hex(const Json& json) {
    const std::string& text = json.string();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc{} || end != text.data() + text.size()) throw JsonError("this is not a checksum");
    return value;
}

}  // namespace

RowsMark mark_of_rows(const std::string& name, std::string_view text) {
    RowsMark mark{.name = name, .bytes = text.size(), .checksum = reports::checksum_of(text)};
    for_each_line(text, [&mark](std::string_view line) {
        const std::uint64_t one = reports::checksum_of(line);
        mark.sum += one;
        mark.weighted += one * ++mark.lines;
    });
    return mark;
}

std::optional<std::uint64_t> changed_line(const RowsMark& before, const RowsMark& now) {
    const std::uint64_t change = now.sum - before.sum, weighted = now.weighted - before.weighted;
    if (before.lines != now.lines || change == 0) return std::nullopt;
    for (std::uint64_t line = 1; line <= before.lines; ++line) {
        if (weighted == change * line) return line;
    }
    return std::nullopt;
}

std::string without_times(std::string_view runs) {
    std::string out;
    std::vector<bool> is_time;
    for_each_line(runs, [&](std::string_view line) {
        const std::vector<std::string_view> cells = cells_of(line);
        if (is_time.empty()) {
            for (const std::string_view cell : cells)
                is_time.push_back(std::find(std::begin(times), std::end(times), cell) != std::end(times));
        }
        for (std::size_t i = 0; i < cells.size(); ++i) {
            if (i < is_time.size() && is_time[i]) continue;
            out.append(cells[i]).append(",");
        }
        out += '\n';
    });
    return out;
}

Done make_done(const fs::path& folder, const std::string& id, int attempt) {
    Done done{.id = id,
              .host = host_name(),
              .created_by = "macheps " + version(),
              .git = git_revision(),
              .attempt = attempt,
              .schema = reports::schema_version,
              .files = {}};
    reports::Checksum same;
    constexpr auto files = files_of(std::type_identity<reports::TrainingRows>{});
    for (const std::string_view file : files) {
        const fs::path path = folder / file;
        const std::optional<std::string> text = read_if_there(path);
        if (!text) continue;
        done.files.push_back(mark_of_rows(std::string(file), *text));
        same.update(file);
        same.update(file == reports::RunRow::file ? without_times(*text) : *text);
    }
    done.same_rows = same.value();
    for (const reports::RunRow& run : reports::CsvReader<reports::RunRow>(folder / reports::RunRow::file).rows())
        done.seconds += run.seconds;
    // A removal of the folder deletes the manifest before any file of rows. If the manifest is still there, no file of
    // rows was missing because of a removal.
    check_has_end(folder / "manifest.json");
    return done;
}

Done read_done(const fs::path& folder) {
    const fs::path path = folder / done_file;
    const Json json = Json::parse_or_null(read_regular_file(path, max_done_bytes));
    try {
        Done done{.files = {}};
        json.at("unit").get_to(done.id);
        json.at("host").get_to(done.host);
        json.at("attempt").get_to(done.attempt);
        json.at("created_by").get_to(done.created_by);
        json.at("git").get_to(done.git);
        json.at("schema").get_to(done.schema);
        json.at("seconds").get_to(done.seconds);
        done.same_rows = from_hex(json.at("same_rows"));
        for (const Json& one : json.at("files")) {
            RowsMark mark{.name = one.at("name").get<std::string>()};
            one.at("bytes").get_to(mark.bytes);
            mark.checksum = from_hex(one.at("xxh64"));
            one.at("lines").get_to(mark.lines);
            mark.sum = from_hex(one.at("sum"));
            mark.weighted = from_hex(one.at("weighted"));
            done.files.push_back(std::move(mark));
        }
        return done;
    } catch (const JsonError& error) {
        throw Error({.what = std::string("the mark of a finished unit is damaged: ") + error.what(),
                     .where = path.string(),
                     .fix = "remove the unit's folder, and run its shard again"});
    }
}

void write_done(const Done& done, const fs::path& folder) {
    Json files = Json::array();
    for (const RowsMark& mark : done.files) files.push_back(json_of(mark));
    const Json json{{"unit", done.id},         {"host", done.host},
                    {"attempt", done.attempt}, {"created_by", done.created_by},
                    {"git", done.git},         {"schema", done.schema},
                    {"seconds", done.seconds}, {"same_rows", reports::to_hex(done.same_rows)},
                    {"files", files}};
    publish(folder / done_file, json.dump(1) + '\n');
}

}  // namespace macheps::training
