// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy/history.hpp"
#include "core/error.hpp"
#include "core/field_error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/cmd/policy/import.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/files/config/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

namespace macheps::cmd::policies {

using namespace configs;

namespace {

constexpr const char* history_help =
    R"(Prints the faults of training frameworks and libraries that change numbers, by release.

Examples:
  macheps policy history                            every fault and changed default, one line each
  macheps policy history deepspeed                  those of one package
  macheps policy history ds-z2-last-micro-batch     everything that is known about one of them
  macheps policy history ds.json --requirements requirements.txt  those that this config has
  macheps policy history deepspeed --diff 0.17.6:0.18.3           may I upgrade?)";

constexpr const char* history_notes = R"(Columns:
  FROM    the first release with the fault; - if the oldest known release has it
  UNTIL   the first release without it; `open`: no known release is without it
  CODE    E: the run fails, the weights stay, gradients are wrong by a factor of 1000 or more, or
          micro-batches are lost. W: other wrong numbers. N: a changed default or log
  SEEN    run: the release was run with a known gradient. read: its source was read.
          thread: a public report says so, and the source was not read

Configs:
  A fault that the config has, whatever else is the case, is reported with its code. If the fault
  depends on something that no config says, such as the number of ranks, the finding begins with
  "if". `macheps train --config` refuses a config with a fault E, unless --despite names it.

Comparison of versions (--diff OLD:NEW):
  OLD and NEW are a version, NAME=V,NAME=V, or a file as for --requirements.

JSON:
  [{"id", "package", "first_bad", "first_good", "newest_seen", "kind", "code", "evidence", "config",
  "computes", "consequence", "remedy", "cure", "log", "seen", "source"}, ...]
  With --diff: {"gone": [...], "new": [...]}.

Exit codes:
  0  the faults were printed
  1  with a config: a fault E applies
  3  a file is not a config)";

struct HistoryArguments {
    std::vector<std::string> what;
    ImportChoice import;
    std::string diff;
    bool json = false, csv = false;
};

using Rows = std::vector<const FaultRow*>;

std::string until(const FaultRow& row) {
    if (!row.first_good.empty()) return std::string(row.first_good);
    return row.newest_seen.empty() ? "open" : fmt::format("open ({})", row.newest_seen);
}

RowTable<FaultRow> fault_table() {
    const auto kind = [](const FaultRow& row) { return row.is_change ? "change" : "fault"; };
    const auto code = [](const FaultRow& row) { return std::string(1, static_cast<char>(row.code)); };
    const auto evidence = [](const FaultRow& row) { return to_string(row.evidence); };
    const auto from = [](const FaultRow& row) { return std::string(row.first_bad); };
    return {{{"id", &FaultRow::id, "ID"},
             {"package", &FaultRow::package, "PACKAGE"},
             {"first_bad", &FaultRow::first_bad, "FROM", {.table = from}},
             {"first_good", &FaultRow::first_good, "UNTIL", {.table = until}},
             {"newest_seen", &FaultRow::newest_seen},
             {"kind", kind},
             {"code", code, "CODE"},
             {"evidence", evidence, "SEEN"},
             {"config", &FaultRow::trigger, "CONFIG"},
             {"computes", &FaultRow::computes},
             {"consequence", &FaultRow::consequence},
             {"remedy", &FaultRow::remedy},
             {"cure", &FaultRow::cure},
             {"log", &FaultRow::signature},
             {"seen", &FaultRow::seen},
             {"source", &FaultRow::source}}};
}

/// Returns everything that is known about a fault, for people.
std::string description(const FaultRow& row) {
    std::string text = fmt::format(
        "{}: {}, {} {} until {}\n", row.id, row.is_change ? "a changed default" : "a fault", row.package,
        row.first_bad.empty() ? "from the oldest known release" : fmt::format("from {}", row.first_bad), until(row));
    const auto add = [&](std::string_view label, std::string_view value) {
        if (!value.empty()) text += fmt::format("  {:<12} {}\n", label, value);
    };
    add("config", row.trigger);
    add("and if", row.question);
    add("computes", row.computes);
    add("consequence", row.consequence);
    add("remedy", row.remedy);
    add("in a log", row.signature);
    add("evidence", fmt::format("{}: {}", to_string(row.evidence), row.seen));
    add("source", row.source);
    return text;
}

Rows rows_of(std::string_view package) {
    Rows rows = fault_rows();
    if (!package.empty()) std::erase_if(rows, [&](const FaultRow* row) { return row->package != package; });
    return rows;
}

void print_rows(const HistoryArguments& a, const Rows& rows) {
    const RowTable<FaultRow> table = fault_table();
    if (a.json)
        print_json(table.json(rows));
    else if (a.csv)
        print_text(table.csv(rows));
    else if (rows.size() == 1)
        print_text(description(*rows.front()));
    else
        print_text(rows.empty() ? "no known fault applies\n" : table.text(rows));
}

/// The faults that the import of a config reports.
Rows faults_in(const ImportResult& result) {
    Rows rows;
    for (const Finding& finding : result.findings) {
        const FaultRow* row = find_fault(finding.fault);
        if (row != nullptr && std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
    }
    return rows;
}

/// Returns the options in which a version without a name belongs to `package`.
ImportOptions with_owner(ImportOptions options, std::string_view package) {
    const auto unnamed = options.versions.find("");
    if (unnamed == options.versions.end() || package.empty()) return options;
    options.versions.insert_or_assign(std::string(package), unnamed->second);
    options.versions.erase(unnamed);
    return options;
}

/// Returns the options with the versions of one side of --diff. `package` is the owner of a version without a name.
ImportOptions with_versions(ImportOptions options, const std::string& side, std::string_view package) {
    std::error_code failed;
    if (std::filesystem::is_regular_file(side, failed)) {
        options.requirements = read_requirements(side);
        return options;
    }
    read_versions(side, options);
    return with_owner(std::move(options), package);
}

/// Returns the rows of `package` (all rows if empty) whose package has a version in the options with the fault.
Rows faults_of_versions(std::string_view package, const ImportOptions& options) {
    if (options.versions.contains("")) {
        throw FieldError("diff", "a version without a name belongs to no package here",
                         "name the package: `macheps policy history deepspeed --diff OLD:NEW`, or write NAME=V");
    }
    Rows rows = rows_of(package);
    std::erase_if(rows, [&](const FaultRow* row) {
        const std::optional<FrameworkVersion> version = version_in(options, row->package);
        return !version || !has_fault(*row, *version);
    });
    return rows;
}

Rows only_in(const Rows& here, const Rows& there) {
    Rows rows;
    for (const FaultRow* row : here) {
        if (std::find(there.begin(), there.end(), row) == there.end()) rows.push_back(row);
    }
    return rows;
}

Exit print_difference(const HistoryArguments& a, const ImportOptions& options, std::string_view package,
                      bool is_config) {
    const std::size_t colon = a.diff.find(':');
    if (colon == std::string::npos) {
        throw FieldError("diff", fmt::format("'{}' is not a pair of versions", a.diff),
                         "write OLD:NEW, as in 0.17.6:0.18.3");
    }
    const auto faults = [&](const std::string& side) {
        const ImportOptions of_side = with_versions(options, side, package);
        return is_config ? faults_in(import_config(a.what, of_side)) : faults_of_versions(package, of_side);
    };
    const Rows before = faults(a.diff.substr(0, colon)), after = faults(a.diff.substr(colon + 1));
    const Rows gone = only_in(before, after), added = only_in(after, before);
    const RowTable<FaultRow> table = fault_table();
    if (a.json) {
        print_json({{"gone", table.json(gone)}, {"new", table.json(added)}});
        return Exit::ok;
    }
    if (gone.empty() && added.empty()) print_text("no known fault or default changes\n");
    if (!gone.empty()) print_text("no longer:\n" + table.text(gone));
    if (!added.empty()) print_text((gone.empty() ? "new:\n" : "\nnew:\n") + table.text(added));
    return Exit::ok;
}

bool is_package(std::string_view word) {
    const std::vector<std::string_view> names = fault_packages();
    return find_framework(word) != nullptr || std::find(names.begin(), names.end(), word) != names.end();
}

/// Throws Error (usage) for a word that is neither a file nor a setting.
void require_files(const std::vector<std::string>& words) {
    std::error_code failed;
    for (const std::string& word : words) {
        if (std::filesystem::exists(word, failed) || word.find('=') != std::string::npos) continue;
        std::vector<std::string_view> names = fault_packages();
        for (const FaultRow* row : fault_rows()) names.push_back(row->id);
        const std::string nearest = nearest_name(word, names);
        throw Error({.what = fmt::format("'{}' is no file, no package of the history and no id of a fault", word),
                     .where = "WHAT",
                     .fix = nearest.empty() ? "run `macheps policy history` to see packages and ids"
                                            : fmt::format("did you mean '{}'?", nearest),
                     .exit = Exit::usage});
    }
}

Exit run_history(const HistoryArguments& a, const Command& verb) {
    const ImportOptions options = a.import.options(verb);
    const std::string first = a.what.empty() ? "" : lowered(a.what.front());
    const bool is_word = a.what.size() == 1 && (is_package(first) || find_fault(first) != nullptr);
    if (a.what.empty() || is_word) {
        const std::string word = is_word ? first : a.import.framework;
        if (const FaultRow* row = find_fault(word)) {
            if (!a.diff.empty()) {
                throw FieldError("diff", fmt::format("{} is one fault: its releases are in its description", row->id),
                                 fmt::format("leave --diff out, or write {} instead", row->package));
            }
            print_rows(a, {row});
            return Exit::ok;
        }
        if (!a.diff.empty()) return print_difference(a, options, word, false);
        const bool has_versions = !options.versions.empty() || !options.requirements.versions.empty();
        print_rows(a, has_versions ? faults_of_versions(word, with_owner(options, word)) : rows_of(word));
        return Exit::ok;
    }
    require_files(a.what);
    if (!a.diff.empty()) return print_difference(a, options, {}, true);
    const ImportResult result = import_config(a.what, options);
    print_rows(a, faults_in(result));
    const auto is_grave = [](const Finding& one) {
        return !one.fault.empty() && severity(one) == FindingSeverity::error;
    };
    return std::any_of(result.findings.begin(), result.findings.end(), is_grave) ? Exit::check_failed : Exit::ok;
}

void describe_history(Command& verb) {
    const auto a = std::make_shared<HistoryArguments>();
    verb.option("WHAT", a->what,
                "A package, the id of a fault, or the files and key=value overrides of one config. Default: all faults")
        .takes(value_kind::file);
    verb.option("--diff", a->diff, "Show what changes between two versions, OLD:NEW. Default: none");
    const Option json = verb.flag("--json", a->json, "Print as JSON");
    verb.flag("--csv", a->csv, "Print as CSV").excludes(json);
    verb.group("Options for a framework's config");
    a->import.add_options(verb);
    verb.runs([a, &verb] { return run_history(*a, verb); });
}

}  // namespace

const VerbRow history_verb{"history", history_help, describe_history, history_notes};

}  // namespace macheps::cmd::policies
