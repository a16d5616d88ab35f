// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/train/config.hpp"

#include "core/host/read_file.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/policy/import_output.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/files/config/value.hpp"
#include "reports/logs/run_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>

namespace macheps::cmd::train {

using namespace reports;

using namespace training;

using namespace configs;

using namespace policy;

using namespace files;

namespace {

namespace fs = std::filesystem;

bool exists(const std::string& name) {
    std::error_code ignored;
    return fs::exists(name, ignored);
}

/// Returns the files and overrides of one config: the parts of the argument `config` between its `+` characters. If the
/// whole argument is the name of a file, this file is the only part.
std::vector<std::string> parts_of(const std::string& config) {
    if (exists(config)) return {config};
    std::vector<std::string> parts;
    for (std::size_t start = 0; start <= config.size();) {
        const std::size_t plus = std::min(config.find('+', start), config.size());
        if (plus > start) parts.push_back(config.substr(start, plus - start));
        start = plus + 1;
    }
    return parts;
}

/// Returns a name for the policy of these files. It is made from the names of the files, has only characters that are
/// allowed in a policy's name, and differs from all presets and all `others`.
std::string name_of(const std::vector<std::string>& parts, const std::vector<Policy>& others) {
    std::string name;
    for (const std::string& part : parts) {
        if (!exists(part)) continue;  // an override
        if (!name.empty()) name += '+';
        for (const char c : fs::path(part).stem().string()) {
            const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
            name += is_plain ? c : '-';
        }
    }
    if (name.empty() || name.front() == '-') name.insert(0, "config");
    const auto is_taken = [&](const std::string& one) {
        const auto presets = preset_names();
        return std::find(presets.begin(), presets.end(), one) != presets.end() ||
               std::any_of(others.begin(), others.end(), [&](const Policy& other) { return other.name == one; });
    };
    if (!is_taken(name)) return name;
    for (int i = 2;; ++i) {
        if (const std::string next = fmt::format("{}-{}", name, i); !is_taken(next)) return next;
    }
}

/// Returns the reason why a config that its framework accepts cannot be trained, or nothing if it can.
std::optional<Error> untrained(const ImportResult& result, const std::string& config) {
    const ResolvedField* fp8 = result.resolved.find("fp8");
    if (fp8 == nullptr || result.has_recipe) return {};
    return Error({.what = fmt::format("the fp8 recipe {} ({}) is defined by the user's program, so the config does not "
                                      "determine its computations",
                                      field_text(fp8->value), fp8->from),
                  .where = config,
                  .fix = "use a policy that describes it; `macheps policy words` lists the recipes",
                  .exit = Exit::usage});
}

/// Returns the error for a config that has an error. If the error is a fault of this release, the config can be trained
/// as if the release did not have it.
Error refusal(const ImportResult& result) {
    const Finding& first = result.findings.front();
    std::string fix = first.instead.empty() ? "correct the config" : first.instead;
    if (!first.fault.empty())
        fix += fmt::format("; --despite {} trains as if the release did not have this fault", first.fault);
    return Error({.what = fmt::format("this {} config has an error: {} [{}]", result.framework->title, first.message,
                                      first.rule),
                  .where = to_string(first.place),
                  .fix = std::move(fix),
                  .exit = Exit::check_failed});
}

/// Returns the configs that another of these configs names. Each is part of that config and not a separate policy.
std::map<std::string, std::string> named_configs(const std::vector<std::string>& configs,
                                                 const ImportOptions& options) {
    std::map<std::string, std::string> named_by;
    if (configs.size() < 2) return named_by;
    const auto is_file = [](const std::string& config) { return parts_of(config) == std::vector{config}; };
    for (const std::string& config : configs) {
        if (named_by.contains(config)) continue;
        for (const std::string& path : import_config(parts_of(config), options).included) {
            for (const std::string& other : configs) {
                std::error_code failed;
                if (other != config && is_file(other) && fs::equivalent(path, other, failed))
                    named_by.emplace(other, config);
            }
        }
    }
    return named_by;
}

/// Returns the value that all of these policies have for a key, or nothing if they differ or one of them has none.
std::optional<std::string> common_value(const TrainingKey& key, const std::vector<Policy>& policies) {
    std::optional<std::string> common;
    for (const Policy& policy : policies) {
        std::optional<std::string> own = key.text(policy.training);
        if (!own || (common && common != own)) return {};
        common = std::move(own);
    }
    return common;
}

}  // namespace

void ConfigChoice::add_config(Command& verb) {
    verb.option("--config", configs,
                "Configs of training frameworks, read as `policy import` reads them. "
                "Each FILE is a policy, unless another FILE refers to it. "
                "A+B is one config in two files. A+KEY=VALUE changes a key. Default: none")
        .takes(value_kind::file);
}

void ConfigChoice::add_options(Command& verb) {
    verb.option("--take", take,
                "Settings to take from a config in addition to its policy: lr, its learning rate. Default: nothing")
        .one_of({"lr"})
        .list();
    import.add_options(verb);
}

ConfigPolicies load_configs(const ConfigChoice& choice, const Command& verb) {
    if (choice.configs.empty()) {
        std::vector<std::string> given = choice.import.given(verb);
        if (!choice.take.empty()) given.emplace_back("--take");
        policies::refuse_without_config(given);
    }
    ImportOptions options = choice.import.options(verb);
    options.for_training = true;
    options.takes_rate = std::find(choice.take.begin(), choice.take.end(), "lr") != choice.take.end();
    ConfigPolicies loaded;
    std::optional<Error> refused, not_trained;
    for (const std::string& config : choice.configs) {
        for (const std::string& part : parts_of(config)) {
            if (exists(part)) options.given_files.push_back(part);
        }
    }
    const std::map<std::string, std::string> named_by = named_configs(choice.configs, options);
    for (const std::string& config : choice.configs) {
        if (const auto named = named_by.find(config); named != named_by.end()) {
            eprint("{} is a file that {} refers to, so it is read as a part of that config, not as another policy\n",
                   config, named->second);
            continue;
        }
        const std::vector<std::string> parts = parts_of(config);
        options.policy_name = name_of(parts, loaded.policies);
        const ImportResult result = import_config(parts, options);
        eprint("{} as {}: {} {}, {}\n", config, options.policy_name, result.framework->title, version_text(result),
               policies::finding_counts(result.findings));
        eprint_text(policies::finding_lines(result.findings));
        if (result.refused()) {
            if (!refused) refused = refusal(result);
            continue;
        }
        if (!not_trained) not_trained = untrained(result, config);
        Policy policy = parse_policy(result.policy, config);
        policy.config = {.framework = std::string(result.framework->name),
                         .version = to_string(result.version),
                         .device = options.device,
                         .files = {},
                         .not_emulated = not_emulated_in(result.findings)};
        for (const std::string& part : parts)
            policy.config.files.emplace_back(part, exists(part) ? read_file(part, config_size_limit) : part);
        for (const std::string& file : result.included) {
            if (std::find(parts.begin(), parts.end(), file) == parts.end())
                policy.config.files.emplace_back(file, read_file(file, config_size_limit));
        }
        loaded.policies.push_back(std::move(policy));
        if (loaded.model.empty()) loaded.model = result.framework->model;
    }
    if (refused) throw std::move(*refused);
    if (not_trained) throw std::move(*not_trained);
    return loaded;
}

Policy baseline_of(const std::vector<Policy>& configs) {
    std::string toml, words;
    std::string_view table;
    for (const TrainingKey& key : training_keys()) {
        if (key.is_of_precision) continue;
        const std::optional<std::string> value = common_value(key, configs);
        if (!value) continue;
        if (key.table != table) toml += fmt::format("\n[{}]\n", key.table);
        table = key.table;
        const bool is_name = key.takes == TrainingKey::Takes::name;
        toml += is_name ? fmt::format("{} = \"{}\"\n", key.name, *value) : fmt::format("{} = {}\n", key.name, *value);
        words += fmt::format("{}{} {}", words.empty() ? "" : ", ", key.name, *value);
    }
    if (toml.empty()) return load_policy(baseline_policy);
    eprint("macheps: {0} takes these settings from the configs: {1}; pass --policy {0} to take them from the options\n",
           baseline_policy, words);
    return parse_policy(fmt::format("name = \"{0}\"\ndescription = \"everything in fp32, with the training settings of "
                                    "the configs\"\nextends = \"{0}\"\n{1}",
                                    baseline_policy, toml),
                        "the baseline of the configs");
}

void check_names(const std::vector<Policy>& policies) {
    for (const Policy& policy : policies) {
        const auto same = [&](const Policy& other) { return other.name == policy.name; };
        if (std::count_if(policies.begin(), policies.end(), same) == 1) continue;
        throw Error({.what = fmt::format("two policies are called '{}'", policy.name),
                     .where = "--policy",
                     .fix = "pass each policy once, and give your own policies different names",
                     .exit = Exit::usage});
    }
}

void tell_micro_batches(const std::vector<Policy>& policies, const TrainOptions& options) {
    for (const Policy& policy : policies) {
        if (!(policy.training.stress == Stress{})) continue;
        const std::int64_t wanted = policy.training.micro_batches.value_or(1);
        const std::int64_t trained = options_under(policy.training, options).micro_batches;
        if (wanted <= 1 || wanted == trained) continue;
        eprint(
            "macheps: {} asks for {} micro-batches, but a step has {} x {} samples; the step is divided into {} "
            "micro-batches\n",
            policy.name, wanted, options.micro_batches, options.batch, trained);
    }
}

void tell_left_out(const std::vector<Policy>& policies, const ModelConfig& model) {
    const SiteList sites = model_sites(model);
    for (const Policy& policy : policies) {
        const ResolvedPolicy resolved = resolve(policy, sites);
        // A copy of a policy with a stress leaves out the same sites as the policy itself, so it is not reported.
        if (resolved.left_out.empty() || !(policy.training.stress == Stress{})) continue;
        if (const auto [low, asked] = resolved.low_linears(); asked > 0)
            eprint("macheps: {}: {} of {} linears in 8 bits or fewer\n", policy.name, low, asked);
        else
            eprint("macheps: {}:\n", policy.name);
        for (const auto& one : resolved.left_out) eprint("  left out: {}: {}\n", one.site, one.why);
    }
}

}  // namespace macheps::cmd::train
