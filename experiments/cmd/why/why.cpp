// SPDX-License-Identifier: Apache-2.0
// `macheps why`: explains an error message or a symptom.
#include "core/text/quote.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/cmd/policy/import.hpp"
#include "experiments/configs/symptoms/causes.hpp"
#include "experiments/configs/symptoms/match.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::why {

using namespace configs;

namespace {

constexpr const char* help =
    R"(Explains an error message or a symptom: its causes, and what to try.

Examples:
  macheps why "Attempting to unscale FP16 gradients."    an error message, as the program printed it
  macheps why "the loss does not decrease"               a symptom in your words
  macheps why "loss is nan" --config ds.json             marks the causes that the config excludes
  tail -n 50 train.log | macheps why -                   the end of a log
  macheps why --list                                     every entry)";

constexpr const char* notes = R"(Matching:
  First, the texts of all entries are looked up in TEXT; numbers, paths, quoted names and dtypes may
  differ. If none occurs, the entries that have most words in common with TEXT are shown. At most
  three entries are shown, the best first. If no entry is similar enough, the titles that have
  most words in common with TEXT are listed, and the exit code is 1.

Entries:
  Causes are listed by frequency. A cause names the findings of `macheps policy import`, the
  diagnoses of `macheps report --diagnose` and the known faults of releases that report it.
  In commands, CONFIG is your config, and RUN is a run directory or a training log.

Configs:
  With --config, the config is imported. A cause is marked PRESENT if the import reports it. It is
  marked EXCLUDED if the import would report it, but does not. Give --framework-version, because a
  fault of releases is excluded only if the version is known.

JSON:
  {"entries": [{"id", "title", "match": {"kind", "text", "matched"}, "texts": [...], "source",
  "causes": [{"text", "rules": [...], "diagnoses": [...], "faults": [...], "verdict", "reason"}],
  "try": [...], "command"}, ...], "nearest": [{"id", "title"}, ...]}
  `kind` is exact, run or words. `verdict` is open, applies or excluded. `nearest` is empty if there
  are entries, or if no entry has a word of TEXT. With --list, an array of entries without "match".

Exit codes:
  0  an entry was found
  1  no entry is similar enough
  3  stdin has too many bytes, or a file is not a config)";

/// Maximum number of bytes read from stdin.
constexpr std::size_t max_text_bytes = std::size_t{64} << 20;

struct Arguments {
    std::vector<std::string> words, configs;
    policies::ImportChoice choice;
    bool list = false, json = false;
};

std::string read_stdin() {
    std::string text;
    std::array<char, 65536> block;
    for (std::size_t count = 0; (count = std::fread(block.data(), 1, block.size(), stdin)) > 0;) {
        text.append(block.data(), count);
        if (text.size() <= max_text_bytes) continue;
        throw Error({.what = fmt::format("the text has more than {} bytes", max_text_bytes),
                     .where = "stdin",
                     .fix = "pass only the lines around the message",
                     .exit = Exit::bad_input});
    }
    if (std::ferror(stdin) != 0)
        throw Error(
            {.what = "cannot read", .where = "stdin", .fix = "pass the text as an argument", .exit = Exit::bad_input});
    return text;
}

std::string given_text(const Arguments& a) {
    const std::string text =
        a.words == std::vector<std::string>{"-"} ? read_stdin() : fmt::format("{}", fmt::join(a.words, " "));
    if (text.find_first_not_of(" \t\r\n") != std::string::npos) return text;
    throw usage_error("the text is empty", "TEXT", "pass an error message or a symptom, or use --list");
}

std::vector<JudgedCause> judge(const SymptomRow& row, const std::optional<CauseJudge>& config) {
    if (config) return config->judge(row);
    std::vector<JudgedCause> judged;
    for (const SymptomCause& cause : row.causes()) judged.push_back({.cause = &cause});
    return judged;
}

// --- output

Json list_json(std::string_view ids) {
    Json list = Json::array();
    for (const std::string& id : macheps::words_of(ids)) list.push_back(id);
    return list;
}

Json list_json(std::span<const std::string_view> texts) {
    Json list = Json::array();
    for (const std::string_view text : texts) list.push_back(text);
    return list;
}

Json entry_json(const SymptomRow& row, const std::optional<CauseJudge>& config) {
    Json causes = Json::array();
    for (const JudgedCause& judged : judge(row, config)) {
        const SymptomCause& cause = *judged.cause;
        causes.push_back({{"text", cause.text},
                          {"rules", list_json(cause.rules)},
                          {"diagnoses", list_json(cause.diagnoses)},
                          {"faults", list_json(cause.faults)},
                          {"verdict", to_string(judged.verdict)},
                          {"reason", judged.reason}});
    }
    return {{"id", row.id},
            {"title", row.title},
            {"texts", list_json(row.texts())},
            {"source", row.source},
            {"causes", causes},
            {"try", list_json(row.remedies())},
            {"command", row.command.empty() ? std::string() : fmt::format("macheps {}", row.command)}};
}

Json match_json(const SymptomMatch& match, const std::optional<CauseJudge>& config) {
    Json entry = entry_json(*match.row, config);
    entry["match"] = {{"kind", to_string(match.kind)}, {"text", match.text}, {"matched", match.matched}};
    return entry;
}

/// Returns the ids that belong to a cause: "findings deepspeed/floor-raises; diagnoses scale-at-floor".
std::string ids_text(const SymptomCause& cause) {
    std::vector<std::string> parts;
    const auto add = [&](std::string_view name, const std::vector<std::string>& ids) {
        if (!ids.empty()) parts.push_back(fmt::format("{} {}", name, fmt::join(ids, ", ")));
    };
    std::vector<std::string> faults = macheps::words_of(cause.faults);
    for (std::string& fault : faults) fault = fault_text(fault);
    add("findings", macheps::words_of(cause.rules));
    add("diagnoses", macheps::words_of(cause.diagnoses));
    add("faults", faults);
    return fmt::format("{}", fmt::join(parts, "; "));
}

std::string cause_text(std::size_t number, const JudgedCause& judged) {
    constexpr std::array<std::string_view, 3> marks{"", "PRESENT: ", "EXCLUDED: "};
    std::string text =
        format_shown("  {}. {}{}\n", number, marks[static_cast<std::size_t>(judged.verdict)], judged.cause->text);
    if (!judged.reason.empty()) text += format_shown("     {}\n", judged.reason);
    const std::string ids = ids_text(*judged.cause);
    if (!ids.empty()) text += format_shown("     {}\n", ids);
    return text;
}

std::string match_text(const SymptomMatch& match, const std::optional<CauseJudge>& config) {
    const SymptomRow& row = *match.row;
    std::string text = format_shown("{}: {}\n", row.id, row.title);
    text += format_shown("matched ({}): {}\n", to_string(match.kind), shown(match.matched));
    if (!row.source.empty()) text += format_shown("printed by: {}\n", row.source);
    text += "causes, the most frequent first:\n";
    std::size_t number = 0;
    for (const JudgedCause& judged : judge(row, config)) text += cause_text(++number, judged);
    if (!row.remedies().empty()) text += "try:\n";
    for (const std::string_view remedy : row.remedies()) text += format_shown("  - {}\n", remedy);
    if (!row.command.empty()) text += format_shown("see it here: macheps {}\n", row.command);
    return text;
}

RowTable<SymptomRow> list_table() {
    return {{{"id", &SymptomRow::id, "ID"},
             {"title", &SymptomRow::title, "TITLE"},
             {"source", [](const SymptomRow& row) { return row.source.empty() ? "words of users" : row.source; },
              "PRINTED BY"}}};
}

Exit print_list(bool json) {
    const std::vector<const SymptomRow*> rows = symptom_rows();
    if (!json) {
        print_text(list_table().text(rows));
        return Exit::ok;
    }
    Json list = Json::array();
    for (const SymptomRow* row : rows) list.push_back(entry_json(*row, {}));
    print_json(list);
    return Exit::ok;
}

Exit print_matches(const std::vector<SymptomMatch>& matches, const std::optional<CauseJudge>& config, bool json) {
    if (json) {
        Json entries = Json::array();
        for (const SymptomMatch& match : matches) entries.push_back(match_json(match, config));
        print_json({{"entries", entries}, {"nearest", Json::array()}});
        return Exit::ok;
    }
    for (const SymptomMatch& match : matches) {
        if (&match != &matches.front()) print_text("\n");
        print_text(match_text(match, config));
    }
    return Exit::ok;
}

Exit print_nearest(const std::string& text, bool json) {
    const std::vector<const SymptomRow*> nearest = nearest_symptoms(text);
    if (json) {
        Json titles = Json::array();
        for (const SymptomRow* row : nearest) titles.push_back({{"id", row->id}, {"title", row->title}});
        print_json({{"entries", Json::array()}, {"nearest", titles}});
        return Exit::check_failed;
    }
    print_text(nearest.empty() ? "no entry is similar to this text\n"
                               : "no entry is similar to this text; the nearest entries are:\n");
    for (const SymptomRow* row : nearest) print("  {}: {}\n", row->id, row->title);
    print_text("`macheps why --list` lists all entries\n");
    return Exit::check_failed;
}

std::optional<CauseJudge> given_config(const Arguments& a, const Command& verb) {
    if (a.configs.empty()) {
        policies::refuse_without_config(a.choice.given(verb));
        return {};
    }
    return CauseJudge(a.configs, a.choice.options(verb));
}

Exit explain(const Arguments& a, const Command& verb) {
    const std::string text = given_text(a);
    const std::optional<CauseJudge> config = given_config(a, verb);
    const std::vector<SymptomMatch> matches = match_symptoms(text);
    return matches.empty() ? print_nearest(text, a.json) : print_matches(matches, config, a.json);
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    Option text = verb.option("TEXT", a->words,
                              "Error message, or words that describe a symptom. Several words are joined by blanks; - "
                              "reads stdin. Required, unless --list is given");
    verb.flag("--list", a->list, "List all entries").excludes(text);
    verb.flag("--json", a->json, "Print as JSON");
    verb.group("Config");
    verb.option("--config", a->configs, "Config of the training. Repeat for several files of one config. Default: none")
        .repeats()
        .takes(value_kind::file);
    a->choice.add_options(verb);
    verb.runs([a, &verb] { return a->list ? print_list(a->json) : explain(*a, verb); });
}

}  // namespace

const VerbRow verb{"why", help, describe, notes};

}  // namespace macheps::cmd::why
