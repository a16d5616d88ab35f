// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy/advise.hpp"
#include "core/error.hpp"
#include "core/text/shown.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/policy/import.hpp"
#include "experiments/cmd/policy/import_output.hpp"
#include "experiments/cmd/policy/memory.hpp"
#include "experiments/configs/memory/advise.hpp"
#include "experiments/configs/memory/memory_recipe.hpp"
#include "experiments/configs/remedy/remedies.hpp"
#include "experiments/training/model/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd::policies {

using namespace training;

using namespace configs;

using namespace policy;

namespace {

constexpr const char* advise_help =
    R"(Recommends a policy for a device and a goal, with the reasons and what to watch for.

Examples:
  macheps policy advise --gpu h100 --goal pretrain --params 7e9
  macheps policy advise --gpu t4 --goal lora
  macheps policy advise --gpu h100 --sides 4096,11008,50257   sides for tensor cores
  macheps policy advise --gpu a100 --have hf_args.yaml        how a config differs, and a patch
  macheps policy advise --gpu a100 --toml > mine.toml         only the policy, for train)";

constexpr const char* advise_notes =
    R"(The first recommendation is the best; the others are alternatives. In brackets: the source (quoted
in docs/systems.md).

With --have and a config, the settings that end its findings are listed. Each was tried: the config
was imported with it. The patch writes them into the file (`patch -p0`). It is left out if a setting
cannot be written there, such as an option of a command.

JSON:
  {"device", "device_is_assumed", "goal", "params", "advice": [{"name", "policy", "when", "reasons": [{"text",
  "source"}], "watch": [...], "bytes_per_parameter"}], "dimensions": [{"formats", "multiple_of",
  "text", "source", "unfit"}], "have": null or {"name", "disagreements": [{"what", "have",
  "advised", "why", "source"}], "findings", "remedies": [{"rule", "settings"}], "patch"}}

Exit codes:
  0  --have does not differ, or is not given
  1  the --have argument differs from the first recommendation, or its framework refuses it)";

struct AdviseArguments {
    std::string goal = "pretrain", have;
    ImportChoice choice;  ///< the device, and how --have is read
    ImportOptions import;
    std::string params;
    std::vector<std::int64_t> sides;
    bool json = false, toml = false;
};

/// Comparison of the policy or config that --have names with the policy that is advised first.
struct Had {
    std::vector<Disagreement> disagreements;
    std::vector<Finding> findings;           ///< errors, warnings and contradictions of a config
    Remedies remedies;                       ///< settings that end them
    std::string basis;                       ///< ImportResult::basis; empty for a policy
    std::vector<std::string_view> compared;  ///< the questions that were compared
    bool is_refused = false;

    bool disagrees() const { return is_refused || !disagreements.empty(); }
};

/// Returns the imported config of --have, or nothing if it is a policy or is not given.
std::optional<ImportResult> import_have(const AdviseArguments& a) {
    if (a.have.empty() || !is_config_name(a.have)) return {};
    return import_config({&a.have, 1}, a.import);
}

Had compare(const AdviseArguments& a, const std::optional<ImportResult>& config, const std::string& advised) {
    Had had;
    if (config) {
        had.is_refused = config->refused();
        had.basis = config->basis;
        std::copy_if(config->findings.begin(), config->findings.end(), std::back_inserter(had.findings), is_grave);
        had.remedies = find_remedies({&a.have, 1}, a.import);
    }
    const Policy policy = config ? parse_policy(config->policy, a.have) : load_policy(a.have);
    const SiteList sites = model_sites(named_size("tiny").model);
    had.compared = compared_questions();
    had.disagreements = disagreements(resolve(policy, sites), resolve(load_policy(advised), sites),
                                      config ? &config->resolved : nullptr);
    return had;
}

AdviceAsked asked_of(const AdviseArguments& a, const std::optional<ImportResult>& config) {
    AdviceAsked asked{.device = find_device_profile(a.import.device),
                      .trained_in_bf16 = config ? config->trained_in_bf16 : a.import.checkpoint_dtype == "bf16",
                      .sides = a.sides};
    if (!a.params.empty()) asked.params = parameters_of(a.params);
    const auto goal =
        std::find_if(goals().begin(), goals().end(), [&](const GoalRow& row) { return row.name == a.goal; });
    asked.goal = goal->goal;
    return asked;
}

/// Returns the bytes per parameter that a model keeps from one step to the next if it is trained with the advised
/// policy. For inference, only the weights count. Returns nothing for adapters, because their number of parameters is
/// not known.
std::optional<ParameterBytes> bytes_of(const Advice& advice, Goal goal) {
    if (goal == Goal::lora) return {};
    const SiteList sites = model_sites(named_size("base").model);
    ParameterBytes each = memory_recipe_of(sites, resolve(load_policy(advice.policy), sites)).trained;
    if (goal == Goal::inference) each = {.value = each.value};
    return each;
}

/// Returns, for example, `16 bytes per parameter, 112 GB in total: weights 4, gradients 4, optimizer 8; activations are
/// not included`.
std::string bytes_text(const ParameterBytes& each, double params) {
    std::string text =
        fmt::format("{:g} bytes per parameter, {:.3g} GB in total", each.total(), each.total() * params / 1e9);
    if (each.gradients() > 0)
        text += fmt::format(": weights {:g}, gradients {:g}, optimizer {:g}", each.value, each.gradients(),
                            each.optimizer());
    return text + "; activations are not included";
}

Json statements_json(const std::vector<Statement>& all) {
    Json list = Json::array();
    for (const Statement& each : all) list.push_back({{"text", each.text}, {"source", each.source}});
    return list;
}

Json had_json(const std::string& name, const Had& had) {
    Json list = Json::array(), findings = list;
    for (const Disagreement& each : had.disagreements) {
        list.push_back({{"what", each.what},
                        {"have", each.have},
                        {"advised", each.advised},
                        {"why", each.why},
                        {"source", each.source}});
    }
    for (const Finding& one : had.findings) findings.push_back(finding_json(one));
    Json remedies = Json::array();
    for (const Remedy& each : had.remedies.remedies) {
        Json settings = Json::array();
        for (const Setting& setting : each.settings) settings.push_back(setting.text());
        remedies.push_back({{"rule", each.finding.rule}, {"settings", settings}});
    }
    return {{"name", name},
            {"disagreements", list},
            {"findings", findings},
            {"remedies", remedies},
            {"patch", had.remedies.patch}};
}

Json advice_json(const AdviseArguments& a, const AdviceAsked& asked, const std::vector<Advice>& all,
                 const std::optional<Had>& had) {
    Json advice = Json::array(), dimensions = advice;
    for (const Advice& each : all) {
        const std::optional<ParameterBytes> bytes = bytes_of(each, asked.goal);
        advice.push_back({{"name", each.row->name},
                          {"bytes_per_parameter", bytes ? Json(bytes->total()) : Json(nullptr)},
                          {"policy", each.policy},
                          {"when", each.row->when},
                          {"reasons", statements_json(each.reasons)},
                          {"watch", statements_json(each.watch)}});
    }
    for (const DimensionRule& rule : dimension_rules()) {
        if (!rule.is_native(*asked.device)) continue;
        dimensions.push_back({{"formats", rule.formats},
                              {"multiple_of", rule.multiple_of},
                              {"text", rule.text},
                              {"source", rule.source},
                              {"unfit", unfit_sides(rule, asked.sides)}});
    }
    return {{"device", a.import.device},
            {"device_is_assumed", a.import.device_is_default},
            {"goal", a.goal},
            {"params", asked.params ? Json(*asked.params) : Json(nullptr)},
            {"advice", advice},
            {"dimensions", dimensions},
            {"have", had ? had_json(a.have, *had) : Json(nullptr)}};
}

/// Returns the settings that end findings, and the patch that writes them.
std::string remedies_text(const Remedies& all) {
    if (all.remedies.empty()) return {};
    std::string text = "\nsettings that end findings\n";
    for (const Remedy& each : all.remedies) {
        std::vector<std::string> settings;
        for (const Setting& setting : each.settings) settings.push_back(setting.text());
        text += format_shown("  {}   ({})\n", fmt::format("{}", fmt::join(settings, " ")), each.finding.rule);
    }
    // A file with characters that a terminal would execute gets no patch here; --json has it.
    const bool has_patch = !all.patch.empty() && printable_lines(all.patch) == all.patch;
    return text + (has_patch ? "\npatch\n" + all.patch : "");
}

std::string advice_text(const AdviseArguments& a, const AdviceAsked& asked, const std::vector<Advice>& all,
                        const std::optional<Had>& had) {
    std::string text = fmt::format("{} on {}{}{}\n", a.goal, a.import.device,
                                   a.import.device_is_default ? " (assumed; --gpu names another device)" : "",
                                   asked.params ? fmt::format(", {:g} parameters", *asked.params) : std::string{});
    if (had && !had->basis.empty()) text += format_shown("{} is read as: {}\n", a.have, had->basis);
    if (a.import.device_is_default) {
        AdviceAsked without = asked;
        without.device = find_device_profile("t4");
        text += fmt::format("on a GPU without bf16 (T4, V100): {}\n", advise(without).front().policy);
    }
    if (had && !had->findings.empty()) text += "\nfindings\n" + finding_lines(had->findings);
    for (const Advice& each : all) {
        text += fmt::format("\n{} {}   ({})\n", &each == all.data() ? "use" : "or try", each.policy, each.row->when);
        const std::optional<ParameterBytes> bytes = asked.params ? bytes_of(each, asked.goal) : std::nullopt;
        if (bytes) text += fmt::format("  memory   {}\n", bytes_text(*bytes, *asked.params));
        for (const Statement& one : each.reasons) text += fmt::format("  because  {} [{}]\n", one.text, one.source);
        for (const Statement& one : each.watch) text += fmt::format("  watch    {} [{}]\n", one.text, one.source);
    }
    std::string rules;
    for (const DimensionRule& rule : dimension_rules()) {
        if (!rule.is_native(*asked.device)) continue;
        rules += fmt::format("  {:<10}  multiples of {:<2}  {} [{}]\n", rule.formats, rule.multiple_of, rule.text,
                             rule.source);
        const std::vector<std::int64_t> unfit = unfit_sides(rule, asked.sides);
        for (const std::int64_t side : unfit) {
            const std::int64_t next = (side / rule.multiple_of + 1) * rule.multiple_of;
            rules += fmt::format("              {} is not a multiple; the next multiple is {}\n", side, next);
        }
        if (unfit.empty() && !asked.sides.empty()) rules += "              every given side is a multiple\n";
    }
    if (!rules.empty()) text += "\nsides of linears\n" + rules;
    if (!had) return text;
    if (had->is_refused) text += fmt::format("\n{} is refused: {}\n", a.have, had->findings.front().message);
    text += fmt::format("\n{} compared with {}\n", a.have, all.front().policy);
    for (const Disagreement& each : had->disagreements) {
        text +=
            fmt::format("  {}: {}, advised {}: {} [{}]\n", each.what, each.have, each.advised, each.why, each.source);
    }
    if (!had->disagrees())
        text += fmt::format("  agrees in everything that was compared: {}\n", fmt::join(had->compared, "; "));
    text += "  not compared: the kind and the constants of the optimiser, the learning rate, and the data\n";
    return text + remedies_text(had->remedies);
}

/// Refuses options that only a config needs if --have names none.
void refuse_unused(const AdviseArguments& a, const std::optional<ImportResult>& config, const Command& verb) {
    for (const std::string& option : a.choice.given(verb)) {
        if (config || option == "--gpu" || option == "--checkpoint-dtype") continue;
        throw usage_error("this option applies to a config, but no config is given", option,
                          "pass a config with --have, or remove it");
    }
}

Exit run_advise(const AdviseArguments& given, const Command& verb) {
    AdviseArguments a = given;
    a.import = a.choice.options(verb);
    const std::optional<ImportResult> config = import_have(a);
    refuse_unused(a, config, verb);
    const AdviceAsked asked = asked_of(a, config);
    const std::vector<Advice> all = advise(asked);
    const std::optional<Had> had =
        a.have.empty() ? std::nullopt : std::optional<Had>(compare(a, config, all.front().policy));
    if (a.toml) {
        print_text(advice_toml(asked, all.front()));
    } else if (a.json) {
        print_json(advice_json(a, asked, all, had));
    } else {
        print_text(advice_text(a, asked, all, had));
    }
    return had && had->disagrees() ? Exit::check_failed : Exit::ok;
}

void describe_advise(Command& verb) {
    const auto a = std::make_shared<AdviseArguments>();
    std::vector<std::string> goal_names;
    for (const GoalRow& each : goals()) goal_names.emplace_back(each.name);
    a->choice.add_gpu_option(verb, "GPU or other device to train or run on");
    verb.option("--goal", a->goal, "Purpose of the policy").one_of(goal_names).shows_default();
    verb.option("--params", a->params,
                "Number of parameters of the model (7e9, 7B), to print the bytes of each recommendation. "
                "Default: recommend for any size");
    verb.integer(
            "--sides", a->sides, {1, max_size},
            "Sides of the weights of the linear layers, to check whether they suit tensor cores. Default: no check")
        .list();
    verb.option("--have", a->have,
                "Compare the recommendation with this preset, policy (.toml) or config of a framework. "
                "Default: none")
        .takes(value_kind::policy);
    const Option json = verb.flag("--json", a->json, "Print as JSON");
    verb.flag("--toml", a->toml, "Print the recommended policy as TOML").excludes(json);
    verb.group("Config of --have");
    a->choice.add_options_of_config(verb);
    verb.runs([a, &verb] { return run_advise(*a, verb); });
}

}  // namespace

const VerbRow advise_verb{"advise", advise_help, describe_advise, advise_notes};

}  // namespace macheps::cmd::policies
