// SPDX-License-Identifier: Apache-2.0
// `macheps diagnose`: names the most likely cause of a training that became NaN, stalled or diverged, what to check, and
// what to write into the config.
#include "core/host/read_file.hpp"
#include "core/text/quote.hpp"
#include "core/text/shown.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/diagnose/suspects.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/policy/import.hpp"
#include "experiments/cmd/report/training_logs.hpp"
#include "reports/findings/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace macheps::cmd::causes {

using namespace configs;

namespace {

constexpr const char* help =
    R"(Names the most likely cause of a training that became NaN, stalled or diverged, and the remedy.
It also prints three checks, and the lines to write.

Examples:
  macheps diagnose ds.json                           a config: what goes wrong with it
  macheps diagnose trainer_state.json                a log: what happened, and the likely cause
  macheps diagnose train.log ds.json requirements.txt  both, with the versions that you run
  macheps diagnose output/                           an output directory of a trainer
  macheps diagnose runs/001                          a run directory of `macheps train`)";

constexpr const char* notes = R"(Files:
  Configs are read as by `macheps policy import`, logs as by `macheps report`: trainer_state.json,
  trainer_log.jsonl, what DeepSpeed, Megatron-LM, nanoGPT and others print, and CSV files.
  requirements*.txt and *.lock name the versions of packages. KEY=VALUE overrides a key of the
  config. In an output directory and in its last checkpoint, these files are read: a log, config.json
  (format of the weights, vocabulary), adapter_config.json, ds_config.json, training_args.yaml,
  requirements.txt, README.md (the model card of a Trainer) and all_results.json. The end of the page
  lists them.

Causes:
  The causes of what the logs show come from `macheps why`: those that the config or another finding
  shows are first, and those that the config excludes are left out. `certain`, `likely` or
  `possible` says how certain it is that this is the cause. Without a log, the problems of the config
  are listed; they are `certain` if the release has a fault, or refuses the config. Settings were
  tried: the config was imported with them, and the finding was gone. Checks are lines of code for
  Transformers, DeepSpeed, Lightning or torch, if the log or the config belongs to one of them. `model`,
  `trainer`, `loader`, `batch` and `optimizer` are yours.

JSON:
  {"observations": [{"diagnosis", "certainty", "place", "sentence", "remedy"}], "causes": [{"text",
  "certainty", "evidence", "checks": [{"text", "lines": [...]}], "settings": [...], "instead"}],
  "patch", "picture", "read": [...], "unread": [...]}

Exit codes:
  0  a cause was found
  1  no known problem was found
  3  a file is neither a config nor a log)";

struct Arguments {
    std::vector<std::string> files, columns;
    EvidenceOptions options;
    policies::ImportChoice choice;
    bool json = false, all = false;
};

/// A policy that has a diagnosis in a small training, and two that do not.
struct Demonstration {
    std::string_view diagnoses, fails, words, works;
};
constexpr std::array demonstrations{
    Demonstration{"stagnation no-master frozen-moments rounded-norm", "pure-bf16", "weights in bf16 alone",
                  "amp-bf16,pure-bf16-sr"},
    Demonstration{"", "fp16-noscale", "fp16 without loss scaling", "amp-fp16,amp-bf16"},  // all other diagnoses
};

/// Diagnoses that no policy of a small training shows.
constexpr std::string_view without_picture = "zero-loss zero-gradient zero-rate nan-in-eval constant-norm";

/// A command that draws a picture, and a description of the picture.
struct Picture {
    std::string words, command;
};

/// Returns the picture that fits the files. A config of one file is trained next to bf16 autocast and fp32; faults of its
/// release are accepted, because they are not emulated. Without a config and a run, the picture is an example. The command is
/// empty if no example fits.
Picture picture_for(const Evidence& evidence) {
    if (evidence.configs.size() == 1 && is_there(evidence.configs.front())) {
        std::vector<std::string> faults;
        for (const Finding& one : evidence.config->findings) {
            if (!one.fault.empty() && severity(one) == FindingSeverity::error) faults.push_back(one.fault);
        }
        return {"this config next to bf16 autocast and fp32",
                fmt::format("macheps train --config {}{}{} --policy amp-bf16 --png picture.png",
                            shell_word(evidence.configs.front()), faults.empty() ? "" : " --despite ",
                            fmt::join(faults, ","))};
    }
    if (!evidence.runs.empty())
        return {"this run", fmt::format("macheps report {} --png picture.png", shell_word(evidence.runs.front()))};
    const std::string id = evidence.observations.empty() ? "" : evidence.observations.front().diagnosis;
    const std::vector<std::string> others = macheps::words_of(without_picture);
    if (std::find(others.begin(), others.end(), id) != others.end()) return {};
    const auto row = std::find_if(demonstrations.begin(), demonstrations.end(), [&](const Demonstration& one) {
        const std::vector<std::string> ids = macheps::words_of(one.diagnoses);
        return ids.empty() || std::find(ids.begin(), ids.end(), id) != ids.end();
    });
    return {
        fmt::format("a small training that fails with {}, next to two policies that train as fp32 does", row->words),
        fmt::format("macheps train --policy {},{} --png picture.png", row->fails, row->works)};
}

std::string settings_text(const Suspect& suspect) {
    if (suspect.settings.empty()) return suspect.instead.empty() ? "" : format_shown("try:\n  {}\n", suspect.instead);
    std::string text = "write:\n";
    for (const Setting& setting : suspect.settings) text += format_shown("  {}\n", setting.text());
    return text;
}

/// Returns the checks of a cause. The title names the program for which their lines are written.
std::string checks_text(const Suspect& suspect, const configs::CheckStack* stack) {
    const bool has_lines = std::any_of(suspect.checks.begin(), suspect.checks.end(),
                                       [](const Check& check) { return !check.lines.empty(); });
    std::string text = has_lines ? fmt::format("check (lines for {}):\n", stack->title) : "check:\n";
    for (std::size_t i = 0; i < suspect.checks.size(); ++i) {
        text += format_shown("  {}. {}\n", i + 1, suspect.checks[i].text);
        for (const std::string& line : suspect.checks[i].lines) text += format_shown("       {}\n", line);
    }
    return text;
}

/// Returns the lists of the files of folders that were read, and of those that were not.
std::string files_text(const Evidence& evidence) {
    std::string text;
    for (const auto& [title, names] : {std::pair("read", &evidence.read), std::pair("not read", &evidence.unread)}) {
        if (!names->empty()) text += fmt::format("\n{}:\n", title);
        for (const std::string& name : *names) text += format_shown("  {}\n", name);
    }
    return text;
}

/// Returns the patch of the config, with the findings that it ends.
std::string patch_text(const Remedies& all) {
    // A file with characters that a terminal would execute gets no patch here; --json has it.
    if (all.patch.empty() || printable_lines(all.patch) != all.patch) return {};
    std::string text = "\npatch of the config; it ends\n";
    for (const Remedy& each : all.remedies) text += format_shown("  {}: {}\n", each.finding.rule, each.finding.message);
    return text + all.patch;
}

std::string other_text(const Suspect& suspect) {
    return format_shown("  - {} ({}){}{}\n", suspect.text, reports::word_of(suspect.certainty),
                        suspect.evidence.empty() ? "" : ": ", suspect.evidence);
}

std::string report_text(const Evidence& evidence, const std::vector<Suspect>& suspects, bool all) {
    std::string text;
    const std::size_t shown_observations = all ? evidence.observations.size() : 3;
    for (std::size_t i = 0; i < evidence.observations.size(); ++i) {
        if (i == shown_observations) {
            text += fmt::format("and {} more (--all)\n", evidence.observations.size() - i);
            break;
        }
        const Observation& one = evidence.observations[i];
        text +=
            format_shown("{}: {} ({}) [{}]\n", one.place, one.sentence, reports::word_of(one.certainty), one.diagnosis);
    }
    const Suspect& first = suspects.front();
    if (!text.empty()) text += "\n";
    const bool has_symptom = !evidence.observations.empty();
    text += format_shown("{} ({}): {}\n", has_symptom ? "most likely cause" : "gravest problem of the config",
                         reports::word_of(first.certainty), first.text);
    if (!first.evidence.empty()) text += format_shown("  {}\n", first.evidence);
    text += checks_text(first, evidence.stack);
    text += settings_text(first);
    if (suspects.size() > 1) text += has_symptom ? "other possible causes:\n" : "other problems:\n";
    const std::size_t others = all ? suspects.size() : 4;
    for (std::size_t i = 1; i < suspects.size(); ++i) {
        if (i == others) {
            text += fmt::format("  and {} more (--all)\n", suspects.size() - i);
            break;
        }
        text += other_text(suspects[i]);
    }
    text += patch_text(evidence.remedies);
    const Picture picture = picture_for(evidence);
    if (!picture.command.empty()) text += "\n" + format_shown("picture of {}:\n  {}\n", picture.words, picture.command);
    return text + files_text(evidence);
}

Json report_json(const Evidence& evidence, const std::vector<Suspect>& suspects) {
    Json observations = Json::array(), causes = observations;
    for (const Observation& one : evidence.observations) {
        observations.push_back({{"diagnosis", one.diagnosis},
                                {"certainty", reports::word_of(one.certainty)},
                                {"place", one.place},
                                {"sentence", one.sentence},
                                {"remedy", one.remedy}});
    }
    for (const Suspect& one : suspects) {
        Json settings = Json::array(), checks = settings;
        for (const Check& check : one.checks) checks.push_back({{"text", check.text}, {"lines", check.lines}});
        for (const Setting& setting : one.settings) settings.push_back(setting.text());
        causes.push_back({{"text", one.text},
                          {"certainty", reports::word_of(one.certainty)},
                          {"evidence", one.evidence},
                          {"checks", checks},
                          {"settings", settings},
                          {"instead", one.instead}});
    }
    return {{"observations", observations},
            {"causes", causes},
            {"patch", evidence.remedies.patch},
            {"read", evidence.read},
            {"unread", evidence.unread},
            {"picture", suspects.empty() ? std::string() : picture_for(evidence).command}};
}

Exit diagnose(const Arguments& given, const Command& verb) {
    Arguments a = given;
    a.options.import = a.choice.options(verb);
    report::add_columns(a.columns, a.options.log);
    const Evidence evidence = read_evidence(a.files, a.options);
    const std::vector<Suspect> suspects = find_suspects(evidence);
    if (a.json) {
        print_json(report_json(evidence, suspects));
    } else if (suspects.empty()) {
        print("no known problem was found in {}\n", shown_list(a.files));
        print_text(evidence.logs.empty() && evidence.runs.empty()
                       ? "pass the log of the training, too: it shows what happened\n"
                       : "`macheps report` shows what was looked for; `macheps why \"MESSAGE\"` explains a message\n");
        print_text(files_text(evidence));
    } else {
        print_text(report_text(evidence, suspects, a.all));
    }
    return suspects.empty() ? Exit::check_failed : Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("FILE", a->files,
                "Config, training log, output directory of a trainer, or run directory of `macheps train`. Several "
                "files belong to one training")
        .required()
        .takes(value_kind::file);
    verb.flag("--all", a->all, "Print every finding and every possible cause");
    verb.flag("--json", a->json, "Print as JSON");
    verb.group("Log");
    verb.integer("--vocabulary", a->options.log.vocabulary, {2, std::int64_t{1} << 40},
                 "Number of tokens in the vocabulary. Default: not known");
    verb.integer("--gas", a->options.log.gas, {1, std::int64_t{1} << 20},
                 "Number of micro-batches in a step. Default: not known");
    verb.option("--column", a->columns,
                "The name of a quantity in the log, such as loss=train/loss. Default: the names that programs usually "
                "give it")
        .takes("QUANTITY=NAME")
        .repeats();
    verb.group("Config");
    a->choice.add_options(verb);
    verb.runs([a, &verb] { return diagnose(*a, verb); });
}

}  // namespace

const VerbRow verb{"diagnose", help, describe, notes};

}  // namespace macheps::cmd::causes
