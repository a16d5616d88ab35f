// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/run_log.hpp"

#include "core/error.hpp"
#include "core/host/float_environment.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "reports/logs/manifest_text.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <type_traits>

namespace macheps::reports {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view manifest_name = "manifest.json";

/// Whether a file is needed: every run writes it at its start. If a needed file is missing, a note reports this.
enum class Needed : bool { no, yes };

template <class Row>
std::vector<Row> read_rows(const fs::path& folder, Needed needed, std::vector<std::string>& notes) {
    const fs::path path = folder / Row::file;
    if (!fs::exists(path)) {
        if (needed == Needed::yes) notes.push_back(fmt::format("{}: there is no {} yet", folder.string(), Row::file));
        return {};
    }
    CsvReader<Row> reader(path);
    notes.insert(notes.end(), reader.notes().begin(), reader.notes().end());
    return std::move(reader).rows();
}

std::string read_manifest(const fs::path& folder, std::vector<std::string>& notes) {
    const fs::path path = folder / manifest_name;
    const bool exists = fs::exists(path);
    const std::string text = exists ? read_manifest_text(path) : std::string{};
    if (text.empty()) {
        notes.push_back(fmt::format("{}: {} is {}, so the settings are unknown", folder.string(), manifest_name,
                                    exists ? "empty" : "missing"));
        return {};
    }
    const Json manifest = Json::parse_or_null(text);
    if (!manifest.is_object()) {
        throw Error(
            {.what = "the file is not a JSON object", .where = path.string(), .fix = "restore or delete the file"});
    }
    const Json* schema = manifest.find("schema");
    if (schema != nullptr && schema->is_number_integer() && schema->get<double>() > schema_version) {
        throw Error({.what = fmt::format("the file has schema {}, but this program supports only schemas up to {}",
                                         schema->get<double>(), schema_version),
                     .where = path.string(),
                     .fix = "use a newer version of macheps"});
    }
    return text;
}

/// Moves each row to its run. `index` gives the position of each run in `runs` by name. Rows of other runs are dropped.
template <class Row>
void share_out(std::vector<Row> rows, std::span<RunLog> runs, const std::map<std::string, std::size_t>& index) {
    constexpr auto list = std::get<std::vector<Row> RunLog::*>(RunLog::lists);
    for (Row& row : rows) {
        if (const auto found = index.find(row.run); found != index.end()) {
            (runs[found->second].*list).push_back(std::move(row));
        }
    }
}

/// Reads the files that belong to the row types of GrowingRows, except steps.csv. Each of these files may be absent.
template <class... Row>
void read_optional_rows(const fs::path& path, std::type_identity<std::tuple<StepRow, Row...>>, std::span<RunLog> runs,
                        const std::map<std::string, std::size_t>& index, std::vector<std::string>& notes) {
    (share_out(read_rows<Row>(path, Needed::no, notes), runs, index), ...);
}

/// Reads the evaluations, and reduces the rows of sites to figures. Does not read the exponents.
void read_figures(const fs::path& path, std::span<RunLog> runs, const std::map<std::string, std::size_t>& index,
                  std::vector<std::string>& notes) {
    share_out(read_rows<EvalRow>(path, Needed::no, notes), runs, index);
    share_out(read_rows<SiteRow>(path, Needed::no, notes), runs, index);
    for (RunLog& run : runs) {
        run.site_figures = site_figures(run.sites);
        std::vector<SiteRow>().swap(run.sites);  // unlike clear() and `= {}`, this frees the memory
    }
}

std::vector<RunLog> read_folder(const fs::path& path, std::size_t folder, Keep keep, std::vector<std::string>& notes) {
    std::vector<RunLog> runs;
    std::map<std::string, std::size_t> index;
    for (RunRow& row : read_rows<RunRow>(path, Needed::yes, notes)) {
        // A resumed run may have two rows. The later row replaces the earlier one.
        const auto [at, is_new] = index.emplace(row.run, runs.size());
        if (is_new) runs.emplace_back();
        runs[at->second].row = std::move(row);
    }
    std::vector<StepRow> steps = read_rows<StepRow>(path, Needed::yes, notes);
    bool has_older = false;
    for (StepRow& step : steps) {
        if (step.loss_rounded) continue;
        read_as_schema_1(step);
        has_older = true;
    }
    if (has_older) {
        notes.push_back(
            fmt::format("{}: the rows have schema 1. Their `loss` is the policy's own loss, rounded as the policy "
                        "says. Since schema 2, `loss` is computed in fp64 from the policy's logits, and the policy's "
                        "own loss is `loss_rounded`",
                        path.string()));
    }
    for (const StepRow& step : steps) {
        const auto [at, is_new] = index.emplace(step.run, runs.size());
        if (is_new) {
            runs.push_back(
                {.row = {.run = step.run, .policy = step.policy, .seed = step.seed, .status = "unfinished"}});
        }
        RunRow& row = runs[at->second].row;
        if (row.status == "unfinished") row.steps = step.step, row.tokens = step.tokens;
    }
    share_out(std::move(steps), runs, index);
    if (keep == Keep::all) {
        read_optional_rows(path, std::type_identity<GrowingRows>{}, runs, index, notes);
    } else {
        read_figures(path, runs, index, notes);
    }
    for (RunLog& run : runs) {
        run.steps.shrink_to_fit();
        run.folder = folder;
        run.policy = run.row.policy;
        if (run.row.status == "unfinished") {
            notes.push_back(fmt::format("{}: run {} is not finished; it has {} steps so far", path.string(),
                                        run.row.run, run.steps.size()));
        }
    }
    return runs;
}

/// Returns the beginning of the header for `Row`, which identifies files with rows of this type. Files of older
/// versions begin in the same way, because the columns that they lack are at the end.
template <class Row>
std::string first_columns() {
    constexpr std::size_t most = 4;
    std::string text;
    std::size_t count = 0;
    const auto add = [&](const auto& c) {
        if (count++ < most) text.append(c.name).append(",");
    };
    for_each_column<Row>(add);
    return text;
}

/// Returns the first bytes of a file, which contain the first columns of every one of Log::kinds.
std::string head_of(const fs::path& file) {
    constexpr std::size_t max_bytes = 64;
    std::string head;
    read_blocks(file, max_bytes, [&](std::string_view block) { head += block; });
    return head;
}

/// If `file` has rows of one of Log::kinds, appends them to `log` and returns true. Otherwise returns false.
bool read_measured_rows(const fs::path& file, Log& log) {
    const std::string head = head_of(file);
    bool is_known = false;
    const auto try_kind = [&]<class Row>(const Log::Kind<Row>& kind) {
        if (is_known || !head.starts_with(first_columns<Row>())) return;
        is_known = true;
        CsvReader<Row> reader(file);
        log.notes.insert(log.notes.end(), reader.notes().begin(), reader.notes().end());
        log.row_files.push_back(file);
        std::vector<Row>& rows = log.*kind.rows;
        rows.insert(rows.end(), reader.rows().begin(), reader.rows().end());
    };
    std::apply([&](const auto&... kind) { (try_kind(kind), ...); }, Log::kinds);
    return is_known;
}

/// Returns the files in a folder that have the default file name of one of Log::kinds.
std::vector<fs::path> measured_files_of(const fs::path& folder) {
    std::vector<fs::path> files;
    const auto look = [&]<class Row>(const Log::Kind<Row>&) {
        if (fs::exists(folder / Row::file)) files.push_back(folder / Row::file);
    };
    std::apply([&](const auto&... kind) { (look(kind), ...); }, Log::kinds);
    return files;
}

/// Lists the verbs whose rows a report draws: "`gemm`, `sum`, ...".
std::string verbs_with_rows() {
    std::string text;
    std::apply(
        [&](const auto&... kind) { ((text += fmt::format("{}`{}`", text.empty() ? "" : ", ", kind.verb)), ...); },
        Log::kinds);
    return text;
}

Error not_a_run(std::string what, const fs::path& where) {
    return Error({.what = std::move(what),
                  .where = where.string(),
                  .fix = fmt::format("pass a folder that `macheps train` wrote, or a CSV file of macheps {}",
                                     verbs_with_rows())});
}

/// Returns whether two runs have the same steps with the same losses. Two NaNs count as equal.
bool same_losses(const RunLog& a, const RunLog& b) {
    return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                      [](const StepRow& x, const StepRow& y) {
                          return x.step == y.step && (x.loss == y.loss || (x.loss != x.loss && y.loss != y.loss));
                      });
}

}  // namespace

bool has_measured_rows(const fs::path& file) {
    const std::string head = head_of(file);
    return std::apply(
        [&]<class... Row>(const Log::Kind<Row>&...) { return (head.starts_with(first_columns<Row>()) || ...); },
        Log::kinds);
}

void check_is_run(const fs::path& folder) {
    if (!fs::exists(folder)) {
        throw not_a_run("the folder does not exist", folder);
    }
    const auto stands_there = [&](std::string_view name) { return fs::exists(folder / name); };
    constexpr auto files = files_of(std::type_identity<TrainingRows>{});
    if (stands_there(manifest_name) || std::any_of(files.begin(), files.end(), stands_there)) return;
    throw not_a_run(fmt::format("there is no {} in this folder", RunRow::file), folder);
}

void read_as_schema_1(StepRow& step) {
    const auto as_fp32 = [](double x) { return static_cast<double>(static_cast<float>(x)); };
    step.loss = as_fp32(step.loss);
    if (step.baseline_loss) step.baseline_loss = as_fp32(*step.baseline_loss);
    if (step.gap) step.gap = as_fp32(*step.gap);
}

std::vector<std::string> Log::policies() const {
    std::vector<std::string> names;
    for (const RunLog& run : runs) {
        if (std::find(names.begin(), names.end(), run.policy) == names.end()) names.push_back(run.policy);
    }
    std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == baseline_policy; });
    return names;
}

Log read_runs(std::span<const fs::path> folders, Keep keep) {
    const DefaultFloatModes modes;
    Log log;
    for (const fs::path& path : folders) {
        if (!fs::exists(path)) throw not_a_run("the file or folder does not exist", path);
        if (!fs::is_directory(path)) {
            if (!read_measured_rows(path, log))
                throw not_a_run("this is neither a folder nor a CSV file that a report can show", path);
            continue;
        }
        const std::vector<fs::path> files = measured_files_of(path);
        for (const fs::path& file : files) {
            if (!read_measured_rows(file, log)) throw not_a_run("the columns of this file do not match its name", file);
        }
        if (!files.empty() && !fs::exists(path / RunRow::file)) continue;
        check_is_run(path);
        const std::size_t folder = log.folders.size();
        log.folders.push_back({.path = path, .manifest = read_manifest(path, log.notes)});
        std::vector<RunLog> runs = read_folder(path, folder, keep, log.notes);
        std::vector<std::string> renamed;
        const std::size_t before = log.runs.size();
        std::size_t repeats = 0;
        const auto twin = [&](const RunLog& run) -> const RunLog* {
            for (std::size_t i = 0; i < before; ++i) {
                const RunLog& other = log.runs[i];
                if (other.row.policy == run.row.policy && other.row.seed == run.row.seed) return &other;
            }
            return nullptr;
        };
        for (const RunLog& run : runs) {
            const RunLog* other = twin(run);
            if (other && !same_losses(*other, run)) renamed.push_back(run.row.policy);
        }
        for (RunLog& run : runs) {
            const bool is_renamed = std::find(renamed.begin(), renamed.end(), run.row.policy) != renamed.end();
            if (!is_renamed && twin(run)) {
                ++repeats;
                continue;
            }
            if (is_renamed) {
                const fs::path plain = path.filename().empty() ? path.parent_path() : path;
                run.policy = fmt::format("{}@{}", run.row.policy, plain.filename().string());
            }
            log.runs.push_back(std::move(run));
        }
        if (repeats) {
            log.notes.push_back(fmt::format("{}: {} the same losses as {} of an earlier folder and {} shown only once",
                                            path.string(),
                                            repeats == 1 ? "1 run has" : fmt::format("{} runs have", repeats),
                                            repeats == 1 ? "a run" : "runs", repeats == 1 ? "is" : "are"));
        }
    }
    for (RunLog& run : log.runs) {
        for (std::size_t i = 0; i < log.runs.size(); ++i) {
            const RunLog& other = log.runs[i];
            if (other.row.policy != baseline_policy || other.row.seed != run.row.seed) continue;
            if (!run.baseline || (other.folder == run.folder && log.runs[*run.baseline].folder != run.folder)) {
                run.baseline = i;
            }
        }
    }
    return log;
}

std::vector<std::string> read_samples(Log& log, std::span<const std::string> policies) {
    std::vector<std::string> notes, repeated;
    for (std::size_t folder = 0; folder < log.folders.size(); ++folder) {
        std::map<std::string, std::size_t> index;
        for (std::size_t i = 0; i < log.runs.size(); ++i) {
            const RunLog& run = log.runs[i];
            const bool is_wanted = std::find(policies.begin(), policies.end(), run.policy) != policies.end();
            if (run.folder == folder && is_wanted) index.emplace(run.row.run, i);
        }
        if (index.empty()) continue;
        const fs::path& path = log.folders[folder].path;
        share_out(read_rows<SiteRow>(path, Needed::no, repeated), log.runs, index);
        share_out(read_rows<ExponentRow>(path, Needed::no, notes), log.runs, index);
    }
    return notes;
}

}  // namespace macheps::reports
