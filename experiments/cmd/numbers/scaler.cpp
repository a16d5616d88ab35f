// SPDX-License-Identifier: Apache-2.0
// `macheps scaler`: simulates a loss scaler, step by step, with overflow in given steps.
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/policy/scaler/trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::scaler {

using namespace policy;

namespace {

constexpr const char* help =
    R"(Simulates the loss scaler of a framework, step by step, with overflows in the steps that you choose.

Examples:
  macheps scaler torch --window 3 --overflow-at 3,4,9             torch.amp.GradScaler
  macheps scaler ds-zero --version 0.16.5 --window 3 --overflow-at 3,4,9   DeepSpeed ZeRO
  macheps scaler megatron --window 3 --overflow-at 3,4,9 --csv    for a comparison by a program
  macheps scaler apex --init 2097152 --window 1 --steps 5         the scale stops at 2^24
  macheps scaler static --set skip=false --overflow-at 2          no check for Inf)";

constexpr const char* notes = R"(Settings:
  KIND and --set are used as in the [loss_scaler] section of a policy: `macheps policy words`
  lists the keys of each kind. Options that are not given have the defaults of the framework. A
  step overflows if its gradients contain Inf or NaN.

CSV columns:
  step         from 1
  scale        scale of this step
  overflow     0 or 1
  skipped      0 or 1
  scale_after
  tracker      clean steps since the last change of the scale; for ds-zero, ds-fused and
               apex-fp16-utils, since the last overflow
  hysteresis   remaining overflows until the scale backs off; empty if the kind has no hysteresis
  raised       the framework ends the run here, and this is the last row

JSON:
  [{the same names: numbers, and null for no hysteresis}, ...]; an infinite scale is "inf"

Exit codes:
  1  the framework ended the run
  2  the kind does not have the key of an option, or refuses its value)";

struct Arguments {
    std::string kind;
    std::vector<std::string> settings;
    std::vector<std::int64_t> overflow_at;
    std::int64_t steps = 16;
    bool consecutive_hysteresis = false, csv = false, json = false;
    std::array<std::string, 8> values{};  ///< in the order of key_options
};

/// An option that sets a key of the loss scaler. Not every kind of loss scaler has the key.
struct KeyOption {
    const char *name, *key, *value, *help;
};

constexpr std::array<KeyOption, 8> key_options{{
    {"--version", "version", "V", "Version of the framework, such as 0.16.5. Default: the newest known version"},
    {"--init", "init_scale", "X", "Scale of the first step. Default: 65536, or 2^32 for megatron and apex-fp16-utils"},
    {"--growth", "growth_factor", "X", "Factor by which the scale grows. Default: 2"},
    {"--backoff", "backoff_factor", "X", "Factor that multiplies the scale after an overflow. Default: 0.5"},
    {"--window", "growth_interval", "N",
     "Number of clean steps after which the scale grows. Default: 1000 or 2000, depending on the kind"},
    {"--hysteresis", "hysteresis", "N", "Number of overflows until the scale backs off. Default: 2"},
    {"--min-scale", "min_scale", "X", "Lower limit of the scale. Default: 1, or none for apex"},
    {"--max-scale", "max_scale", "X", "Upper limit of the scale. Default: 2^24"},
}};
constexpr KeyOption consecutive_option{"--consecutive-hysteresis", "consecutive_hysteresis", "",
                                       "Refill the hysteresis in every clean step"};

const ScalerKey* find_key(const ScalerKind& kind, std::string_view name) {
    const auto key = std::find_if(kind.keys.begin(), kind.keys.end(), [&](const auto& k) { return k.name == name; });
    return key == kind.keys.end() ? nullptr : &*key;
}

/// Sets a key of the loss scaler. Errors: throws Error (usage), whose text names `option`. If the kind of loss scaler
/// does not have the key, the text also lists the kinds that have it.
void set(LossScalerConfig& config, std::string_view name, std::string_view value, const std::string& option) {
    if (const ScalerKey* key = find_key(*config.kind, name)) {
        try {
            config.set(name, parse_setting(*key, value));
        } catch (const Error& error) {
            throw usage_error(error.parts().what, option, error.parts().fix);
        }
        return;
    }
    std::vector<std::string_view> kinds;
    for (const ScalerKind* kind : scaler_kinds()) {
        if (find_key(*kind, name) != nullptr) kinds.push_back(kind->name);
    }
    throw usage_error(fmt::format("the loss scaler '{}' does not have the key '{}'", config.kind->name, name), option,
                      kinds.empty() ? "see `macheps policy words` for the keys of each kind"
                                    : fmt::format("leave it out, or use {}", fmt::join(kinds, ", ")));
}

LossScalerConfig config_of(const Arguments& a) {
    LossScalerConfig config(*find_scaler(a.kind));
    for (std::size_t i = 0; i < key_options.size(); ++i) {
        if (!a.values[i].empty()) set(config, key_options[i].key, a.values[i], key_options[i].name);
    }
    if (a.consecutive_hysteresis) set(config, consecutive_option.key, "true", consecutive_option.name);
    for (const std::string& setting : a.settings) {
        const std::size_t equals = setting.find('=');
        if (equals == std::string::npos)
            throw usage_error(fmt::format("'{}' does not contain =", setting), "--set", "write KEY=VALUE");
        set(config, setting.substr(0, equals), setting.substr(equals + 1), "--set");
    }
    const std::string conflict = config.kind->conflict == nullptr ? "" : config.kind->conflict(config);
    if (!conflict.empty()) throw usage_error(conflict, std::string(config.kind->name));
    for (const std::int64_t step : a.overflow_at) {
        if (step >= 1 && step <= a.steps) continue;
        throw usage_error(fmt::format("there is no step {}", step), "--overflow-at",
                          fmt::format("use steps from 1 to {}, or a larger --steps", a.steps));
    }
    return config;
}

/// Returns the effects of a step in words, such as `overflow: skipped, backs off`.
std::string words_for(const ScalerStep& row) {
    std::string text;
    const auto say = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
    if (row.raised) return "overflow: the run ends";
    if (row.overflow) say(row.skipped ? "overflow: skipped" : "overflow: taken");
    if (row.scale_after > row.scale) say("grows");
    if (row.scale_after < row.scale) say("backs off");
    const auto factor = static_cast<float>(row.unscaling.divides ? 1 / row.unscaling.factor : row.unscaling.factor);
    if (!row.overflow && row.scale_after > row.scale && factor < static_cast<float>(1 / row.scale))
        say("gradients halved");
    return text.empty() ? "-" : text;
}

/// CSV and table show scales below 10^16 without exponents.
RowTable<ScalerStep> step_table() {
    const auto scale = [](const ScalerStep& row) { return fmt::to_string(row.scale); };
    const auto scale_after = [](const ScalerStep& row) { return fmt::to_string(row.scale_after); };
    return {{{"step", &ScalerStep::step, "step"},
             {"scale", &ScalerStep::scale, "scale", {.csv = scale}},
             {"", {}, "what", {.table = words_for}},
             {"overflow", [](const ScalerStep& row) { return int{row.overflow}; }},
             {"skipped", [](const ScalerStep& row) { return int{row.skipped}; }},
             {"scale_after", &ScalerStep::scale_after, "scale after", {.csv = scale_after}},
             {"tracker", &ScalerStep::tracker, "tracker"},
             {"hysteresis", &ScalerStep::hysteresis, "hysteresis"},
             {"raised", [](const ScalerStep& row) { return int{row.raised}; }}}};
}

Exit run(const Arguments& a) {
    const LossScalerConfig config = config_of(a);
    const auto scaler = make_loss_scaler(config);
    const std::vector<ScalerStep> rows = trace(*scaler, a.overflow_at, a.steps);
    const RowTable<ScalerStep> table = step_table();
    print_text(a.json  ? json_text(table.json(rows))
               : a.csv ? table.csv(rows)
                       : to_string(config) + "\n\n" + table.text(rows));
    if (!rows.back().raised) return Exit::ok;
    throw Error(
        {.what = rows.back().error, .where = fmt::format("step {}", rows.back().step), .exit = Exit::check_failed});
}

std::vector<std::string> kind_names() {
    std::vector<std::string> names;
    for (const ScalerKind* kind : scaler_kinds()) {
        names.emplace_back(kind->name);
        names.insert(names.end(), kind->aliases.begin(), kind->aliases.end());
    }
    return names;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.group("Steps");
    verb.option("KIND", a->kind, "Kind of loss scaler").required().one_of(kind_names());
    verb.integer("--overflow-at", a->overflow_at, {1, 1000000},
                 "Steps that overflow, counted from 1, separated by commas. Default: none")
        .list()
        .takes("N,N...");
    verb.integer("--steps", a->steps, {1, 1000000}, "Number of steps").shows_default();
    verb.group("Settings of the scaler");
    for (std::size_t i = 0; i < key_options.size(); ++i) {
        const KeyOption& option = key_options[i];
        verb.option(option.name, a->values[i], option.help).takes(option.value);
    }
    verb.flag(consecutive_option.name, a->consecutive_hysteresis, consecutive_option.help);
    verb.option("--set", a->settings, "Set any key of the kind, as in a policy. Repeat for several. Default: none")
        .repeats()
        .takes("KEY=VALUE");
    verb.group("Output");
    Option csv = verb.flag("--csv", a->csv, "Print CSV");
    verb.flag("--json", a->json, "Print JSON").excludes(csv);
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"scaler", help, describe, notes};

}  // namespace macheps::cmd::scaler
