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
#include "experiments/configs/framework.hpp"
#include "experiments/configs/memory/memory_recipe.hpp"
#include "experiments/configs/memory/training_format.hpp"
#include "reports/findings/diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
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
  "patch", "basis", "bytes_per_parameter": null or {"before", "after"}, "picture", "read": [...],
  "unread": [...]}
  "basis" says how the config was read. "bytes_per_parameter" belongs to the settings of the first
  cause, if they change the format of the matmuls.

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
    std::string_view diagnoses, fails, words, works, works_without_bf16;
};
constexpr std::array demonstrations{
    Demonstration{"stagnation no-master frozen-moments rounded-norm", "pure-bf16", "weights in bf16 alone",
                  "amp-bf16,pure-bf16-sr", "fp32"},
    Demonstration{"", "fp16-noscale", "fp16 without loss scaling", "amp-fp16,amp-bf16",
                  "amp-fp16"},  // all other diagnoses
};

/// Diagnoses that no policy of a small training shows.
constexpr std::string_view without_picture = "zero-loss zero-gradient zero-rate nan-in-eval constant-norm";

/// A command that draws a picture, and a description of the picture.
struct Picture {
    std::string words, command;
};

/// Returns the letter of the format in which the training should compute on the device of the user. fp16 is replaced if
/// the training went wrong in it.
char proposed_format(const Evidence& evidence) {
    const bool has_failed = evidence.config && evidence.config->resolved.word("compute") == "H";
    const bool is_bf16 = evidence.config && evidence.config->trained_in_bf16;
    return training_format(*find_device_profile(evidence.import.device), has_failed || is_bf16);
}

/// Returns the picture that fits the files. A config of one file is trained next to fp32 and to the proposed format;
/// faults of its release are accepted, because they are not emulated. Without a config and a run, the picture is an
/// example. The command is empty if no example fits.
Picture picture_for(const Evidence& evidence, const policies::ImportChoice& choice) {
    if (evidence.configs.size() == 1 && is_there(evidence.configs.front())) {
        policies::ImportChoice with_faults = choice;
        for (const Finding& one : evidence.config->findings) {
            if (!one.fault.empty() && severity(one) == FindingSeverity::error) with_faults.despite.push_back(one.fault);
        }
        ImportOptions options = evidence.import;
        // Without the folder, the framework could not be recognised by the kind of the model.
        if (options.model.is_seq2seq) options.framework = evidence.config->framework->name;
        const char format = proposed_format(evidence);
        const std::string_view preset = training_preset(format);
        return {fmt::format("this config next to {}fp32", format == 'F'   ? ""
                                                          : format == 'B' ? "bf16 autocast and "
                                                                          : "fp16 autocast and "),
                fmt::format("macheps train --config {}{}{} --png picture.png", shell_word(evidence.configs.front()),
                            with_faults.words(options), format == 'F' ? "" : fmt::format(" --policy {}", preset))};
    }
    if (!evidence.runs.empty())
        return {"this run", fmt::format("macheps report {} --png picture.png", shell_word(evidence.runs.front()))};
    const std::string id = evidence.observations.empty() ? "" : evidence.observations.front().diagnosis;
    const std::vector<std::string> others = macheps::words_of(without_picture);
    if (std::find(others.begin(), others.end(), id) != others.end()) return {};
    // A device without bf16 is only avoided if the user names it.
    const bool has_bf16 = evidence.import.device_is_default || find_device_profile(evidence.import.device)->bf16;
    const auto row = std::find_if(demonstrations.begin(), demonstrations.end(), [&](const Demonstration& one) {
        const std::vector<std::string> ids = macheps::words_of(one.diagnoses);
        return ids.empty() || std::find(ids.begin(), ids.end(), id) != ids.end();
    });
    return {fmt::format("a small training that fails with {}, next to policies that train as fp32 does", row->words),
            fmt::format("macheps train --policy {},{} --png picture.png", row->fails,
                        has_bf16 ? row->works : row->works_without_bf16)};
}

/// Describes how the files were read: the framework, the versions and the device, and which of these are assumed.
std::string basis_text(const Evidence& evidence) {
    if (!evidence.config) return "no config was given: formats, versions and the device are not known\n";
    return format_shown("read as: {}\n", evidence.config->basis);
}

/// Proposes to train in another format if the first cause needs fp16 and no finding has settings against it. The settings
/// are tested as those of findings are.
void propose_format(Evidence& evidence, Suspect& first) {
    const bool is_fp16 = evidence.config && evidence.config->resolved.word("compute") == "H";
    if (!first.needs_fp16 || !first.settings.empty() || !is_fp16) return;
    const FormatSettings* settings = format_settings(evidence.config->framework->name);
    if (settings == nullptr) return;
    Remedy format;
    format.finding.message = first.text;
    format.settings = settings_in(proposed_format(evidence) == 'B' ? settings->bf16 : settings->fp32, false);
    Remedies all = find_remedies(evidence.configs, evidence.import, &format);
    if (all.remedies.empty() || !all.remedies.front().finding.rule.empty()) return;
    first.settings = format.settings;
    evidence.remedies = std::move(all);
}

std::string settings_words(const std::vector<Setting>& settings) {
    std::vector<std::string> words;
    for (const Setting& setting : settings) words.push_back(setting.text());
    return fmt::format("{}", fmt::join(words, " "));
}

/// Returns the settings of the first cause for a GPU without bf16 if the device is only assumed and they differ.
std::string other_device_text(const Evidence& evidence, const Suspect& first) {
    if (!evidence.config || !evidence.import.device_is_default || first.settings.empty()) return {};
    ImportOptions other = evidence.import;
    other.device = "t4";
    const ImportResult result = import_config(evidence.configs, other);
    const FormatSettings* settings = format_settings(result.framework->name);
    std::vector<Setting> found;
    for (const Finding& finding : result.findings) {
        if (finding.rule == first.rule && found.empty()) found = settings_of(finding);
    }
    if (first.rule.empty() && settings != nullptr) found = settings_in(settings->fp32, false);
    if (found.empty() || settings_words(found) == settings_words(first.settings)) return {};
    return format_shown("on a GPU without bf16 (T4, V100), write:\n  {}\n", settings_words(found));
}

/// Returns the problems that the config has only with the settings, and the advice against them.
std::string new_problems_text(const Evidence& evidence, const Suspect& first) {
    if (!evidence.config || first.settings.empty()) return {};
    const std::optional<ImportResult> after = import_with(evidence.configs, first.settings, evidence.import);
    std::string text;
    for (const Finding& finding : after ? after->findings : std::vector<Finding>{}) {
        const auto is_same = [&](const Finding& one) { return one.rule == finding.rule; };
        const std::vector<Finding>& before = evidence.config->findings;
        if (!is_grave(finding) || std::any_of(before.begin(), before.end(), is_same)) continue;
        text += format_shown("  {}{}{} [{}]\n", finding.message,
                             finding.instead.empty() ? "" : "; write: ", finding.instead, finding.rule);
    }
    return text.empty() ? text : "with this change also:\n" + text;
}

/// The memory of the config, and that with the settings of the first cause, if they change the format of the matmuls.
struct Cost {
    policy::MemoryRecipe before, after;
};
std::optional<Cost> cost_of(const Evidence& evidence, const Suspect& first) {
    if (!evidence.config || first.settings.empty()) return {};
    const std::optional<ImportResult> after = import_with(evidence.configs, first.settings, evidence.import);
    if (!after || after->resolved.word("compute") == evidence.config->resolved.word("compute")) return {};
    return Cost{memory_recipe_of(*evidence.config), memory_recipe_of(*after)};
}

/// Returns the memory that the settings of the first cause need.
std::string cost_text(const std::optional<Cost>& cost) {
    if (!cost) return {};
    const policy::ParameterBytes &before = cost->before.trained, &after = cost->after.trained;
    const auto row = [](std::string_view what, double now, double then, std::string_view unit) {
        return fmt::format("  {}: {:g} bytes per {} (before: {:g})\n", what, now, unit, then);
    };
    std::string text = "memory with this change (`macheps policy explain CONFIG --params N` prints totals):\n";
    text += row("weights, gradients and optimiser", after.total(), before.total(), "trained parameter");
    const policy::ActivationForm *then = cost->before.activations, *now = cost->after.activations;
    if (after.cast != before.cast)
        text += row("copies of the weights for matmuls", after.cast, before.cast, "trained parameter");
    if (then != nullptr && now != nullptr && then->per_position != now->per_position)
        text += row("activations of a layer, without attention scores", now->per_position, then->per_position,
                    "token and unit of width");
    return text;
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
    for (const Remedy& each : all.remedies) {
        const std::string& rule = each.finding.rule;
        text += format_shown("  {}{}{}\n", rule, rule.empty() ? "" : ": ", each.finding.message);
    }
    return text + all.patch;
}

std::string other_text(const Suspect& suspect) {
    return format_shown("  - {} ({}){}{}\n", suspect.text, reports::word_of(suspect.certainty),
                        suspect.evidence.empty() ? "" : ": ", suspect.evidence);
}

std::string report_text(const Evidence& evidence, const std::vector<Suspect>& suspects, const Arguments& a) {
    const bool all = a.all;
    std::string text = basis_text(evidence) + "\n";
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
    const bool has_symptom = !evidence.observations.empty();
    if (has_symptom) text += "\n";
    text += format_shown("{} ({}): {}\n", has_symptom ? "most likely cause" : "gravest problem of the config",
                         reports::word_of(first.certainty), first.text);
    if (!first.evidence.empty()) text += format_shown("  {}\n", first.evidence);
    text += checks_text(first, evidence.stack);
    text += settings_text(first) + new_problems_text(evidence, first) + other_device_text(evidence, first) +
            cost_text(cost_of(evidence, first));
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
    const Picture picture = picture_for(evidence, a.choice);
    if (!picture.command.empty()) text += "\n" + format_shown("picture of {}:\n  {}\n", picture.words, picture.command);
    return text + files_text(evidence);
}

Json cost_json(const std::optional<Cost>& cost) {
    if (!cost) return nullptr;
    return {{"before", cost->before.trained.total()}, {"after", cost->after.trained.total()}};
}

Json report_json(const Evidence& evidence, const std::vector<Suspect>& suspects, const policies::ImportChoice& choice) {
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
            {"basis", evidence.config ? Json(evidence.config->basis) : Json(nullptr)},
            {"bytes_per_parameter", suspects.empty() ? Json(nullptr) : cost_json(cost_of(evidence, suspects.front()))},
            {"read", evidence.read},
            {"unread", evidence.unread},
            {"picture", suspects.empty() ? std::string() : picture_for(evidence, choice).command}};
}

Exit diagnose(const Arguments& given, const Command& verb) {
    Arguments a = given;
    a.options.import = a.choice.options(verb);
    report::add_columns(a.columns, a.options.log);
    Evidence evidence = read_evidence(a.files, a.options);
    std::vector<Suspect> suspects = find_suspects(evidence);
    if (!suspects.empty()) propose_format(evidence, suspects.front());
    if (a.json) {
        print_json(report_json(evidence, suspects, a.choice));
    } else if (suspects.empty()) {
        print_text(basis_text(evidence));
        print("no known problem was found in {}\n", shown_list(a.files));
        print_text(evidence.logs.empty() && evidence.runs.empty()
                       ? "pass the log of the training, too: it shows what happened\n"
                       : "`macheps report` shows what was looked for; `macheps why \"MESSAGE\"` explains a message\n");
        print_text(files_text(evidence));
    } else {
        print_text(report_text(evidence, suspects, a));
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
