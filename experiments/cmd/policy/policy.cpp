// SPDX-License-Identifier: Apache-2.0
// `macheps policy`, with its verbs show, explain, diff and words. Other files have the verbs list (preset_list.cpp),
// import, history and advise.
#include "experiments/policy/policy.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/model_choice.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/policy/advise.hpp"
#include "experiments/cmd/policy/history.hpp"
#include "experiments/cmd/policy/import.hpp"
#include "experiments/cmd/policy/memory.hpp"
#include "experiments/cmd/policy/preset_list.hpp"
#include "experiments/cmd/policy/tables.hpp"
#include "experiments/configs/memory/memory_recipe.hpp"
#include "experiments/policy/diff.hpp"
#include "experiments/policy/language/copied_preset.hpp"
#include "experiments/policy/language/expand.hpp"
#include "experiments/policy/language/preset_alias.hpp"
#include "experiments/policy/language/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

constexpr const char* help = R"(Lists, prints, explains, compares and imports precision policies.

Examples:
  macheps policy list                               the presets, in groups
  macheps policy show amp-bf16 > mine.toml          a preset's TOML, to copy and edit
  macheps policy explain fp8-tensorwise             every site: format, scaling, machine, rule
  macheps policy diff amp-bf16 ./mine.toml          the differences between the two
  macheps policy import ds.json                     what a framework's config really computes
  macheps policy history deepspeed                  faults of DeepSpeed that change numbers, by release
  macheps policy advise --gpu h100                  which policy to use, why, and what to watch for
  macheps policy words                              every word that a policy may contain)";

constexpr const char* show_help = R"(Prints a policy's TOML.

Examples:
  macheps policy show amp-fp16
  macheps policy show pure-bf16 > mine.toml
  macheps policy show te-mxfp8 --expand        every rule, format, scale and machine, without recipes
  macheps policy show amp-fp16 --json)";

constexpr const char* show_notes = R"(Expanded text:
  With --expand, the text contains the rules of the policies that the policy extends, and the
  settings of its recipes. Each part of a cast is a key: format, scaling, scale_rule, round,
  overflow. The text reads back as the same policy.

Changed copies:
  If a file has the description of a preset, but other settings, its description is replaced. If
  it has the name of such a preset, or replaces casts of a recipe, a note on stderr says so.

JSON:
  {"name", "description", "extends", "loss_scaler", "toml", "aliases", "notes"})";

constexpr const char* explain_help =
    R"(Prints how a policy treats each site, parameter, stored tensor and matmul of a model.

Examples:
  macheps policy explain amp-bf16
  macheps policy explain fp8-tensorwise --size small --fold      one row for equal blocks
  macheps policy explain ./mine.toml --sites 'block.0.attn.*'    some sites
  macheps policy explain ds.json                                 a framework's config
  macheps policy explain amp-bf16 --params 7.5e9 --shards 64     bytes of a model of this size
  macheps policy explain tf32 --csv > tf32.csv)";

constexpr const char* explain_notes = R"(A framework's config is read as `macheps policy import` reads it.

JSON:
  {"policy", "description", "extends", "model", "size", "loss_scaler", "reduce", "optimizer",
  "training", "machines", "unverified", "linears": {"low", "asked"}, "left_out", "left_out_why",
  "rows": [{"site", "slot", "cast", "machine", "rule"}, ...], "tensors": [{"kind", "site",
  "format", "elements", "rule"}, ...], "memory"}
  With --params also "memory_of_params".)";

constexpr const char* diff_help = R"(Prints the differences between two policies on one model.

Examples:
  macheps policy diff tf32 amp-bf16
  macheps policy diff amp-bf16 ./mine.toml --sites '*mlp*'    some sites
  macheps policy diff amp-bf16 hf_args.yaml                   a framework's config
  macheps policy diff amp-fp16 fp16-noscale --json)";

constexpr const char* diff_notes = R"(Comparison:
  The comparison covers the settings that the rules resolve to: the cast of each slot, the machine
  of each matmul, master copies, the loss scaler and the optimiser. Equal blocks are printed as
  block.*, and slots with the same change share a line. A framework's config is read as `macheps
  policy import` reads it.

JSON:
  {"a", "b", "model", "size", "same", "differences": [{"what", "site", "slot", "a", "b"}, ...]}
  `what` is cast, machine, loss_scaler, reduce, optimizer, clip, accumulation or left_out, and `-`
  means none.

Exit codes:
  0  the two are the same
  1  they differ)";

constexpr const char* words_help =
    R"(Prints every key, slot, format and name that a policy may contain, with a sentence for each.

Examples:
  macheps policy words
  macheps policy words | grep rope     the slots of rotary positions
  macheps policy words --json)";

constexpr const char* words_notes =
    R"(A group is a place in a policy file. `of` is the owner of a word: the kind of site for a slot, the
loss scaler for a key. In brackets: the source of a word.

JSON:
  [{"group", "title", "words": [{"of", "name", "initial", "source", "summary"}, ...]}, ...])";

struct Arguments {
    std::string name, other, sites;
    ModelChoice model;
    ImportChoice import;
    ImportOptions import_options{};
    MemoryChoice memory;
    bool json = false, csv = false, fold = false, expand = false;
};

Json reduce_json(const ReduceConfig& config) {
    Json json = Json::object();
    for (const auto& [key, text] : settings_of(config)) json[key] = text;
    return json;
}

Json training_json(const TrainingRecipe& recipe) {
    Json json = Json::object();
    for (const auto& [key, value] : settings_of(recipe)) json[key] = value;
    return json;
}

/// Returns the number of matmuls on each machine.
Json machines_json(const ResolvedPolicy& policy) {
    Json json = Json::object();
    for (const auto& [machine, count] : policy.machines()) json[machine] = count;
    return json;
}

using Row = ResolvedPolicy::Row;

void print_notes(const Policy& policy) {
    for (const std::string& note : notes_about(policy)) eprint("note: {}\n", note);
}

Exit show(const Arguments& a) {
    const Policy policy = load_policy(a.name);
    const std::string text = a.expand ? expanded_text(policy) : policy.text;
    if (a.json) {
        print_json({{"name", policy.name},
                    {"description", policy.description},
                    {"extends", policy.chain},
                    {"loss_scaler", scaler_json(policy.loss_scaler)},
                    {"toml", text},
                    {"aliases", aliases_of(policy)},
                    {"notes", notes_about(policy)}});
        return Exit::ok;
    }
    for (const PresetAlias& alias : preset_aliases()) {
        if (is_alias_of(alias, policy)) eprint("short name: {} ({})\n", alias.name, alias.why);
    }
    print_notes(policy);
    print_text(text);
    return Exit::ok;
}

RowTable<Difference> difference_rows() {
    return {{{"what", &Difference::what},
             {"site", &Difference::site},
             {"slot", &Difference::slot},
             {"a", &Difference::a},
             {"b", &Difference::b}}};
}

[[noreturn]] void no_such_site(const std::string& pattern) {
    throw Error({.what = fmt::format("'{}' matches no site, parameter or slot", pattern),
                 .where = "--sites",
                 .fix = "use names such as block.0.mlp.up:forward.a and block.0.mlp.up.weight:value",
                 .exit = Exit::usage});
}

/// Restricts a policy to the sites that match `pattern`. An empty pattern keeps all of them. Throws Error (usage) if
/// none match.
ResolvedPolicy only_sites(const ResolvedPolicy& policy, const std::string& pattern) {
    if (pattern.empty()) return policy;
    if (const std::string problem = problem_of_pattern(pattern); !problem.empty()) {
        throw Error({.what = problem, .where = "--sites", .fix = "give a shorter pattern", .exit = Exit::usage});
    }
    ResolvedPolicy some = policy.restricted_to(pattern);
    if (some.order.empty()) no_such_site(pattern);
    return some;
}

Exit diff(const Arguments& a) {
    const SiteList sites = model_sites(a.model.config());
    const auto resolved = [&](const std::string& name) {
        const Policy policy = load_policy_or_config(name, a.import_options);
        print_notes(policy);
        return only_sites(resolve(policy, sites), a.sites);
    };
    const ResolvedPolicy first = resolved(a.name), second = resolved(a.other);
    const std::vector<Difference> list = differences(first, second);
    // Two files may declare the same policy name.
    const bool same_names = first.name == second.name;
    const std::string &name_a = same_names ? a.name : first.name, &name_b = same_names ? a.other : second.name;
    if (a.json) {
        print_json({{"a", name_a},
                    {"b", name_b},
                    {"model", a.model.kind},
                    {"size", a.model.size},
                    {"same", list.empty()},
                    {"differences", difference_rows().json(list)}});
    } else if (a.csv) {
        print_text(difference_rows().csv(list));
    } else if (list.empty()) {
        print("{} and {} are equivalent for {}\n", name_a, name_b, a.model.describe());
    } else {
        print_text(difference_table(list, name_a, name_b));
    }
    return list.empty() ? Exit::ok : Exit::check_failed;
}

Exit explain(const Arguments& a) {
    const ModelConfig model = a.model.config();
    const SiteList sites = model_sites(model);
    const std::optional<ImportResult> config = load_config(a.name, a.import_options);
    const Policy policy = config ? parse_policy(config->policy, a.name) : load_policy(a.name);
    print_notes(policy);
    const ResolvedPolicy resolved = resolve(policy, sites);
    MemoryRecipe recipe;
    if (a.memory.is_asked()) recipe = config ? memory_recipe_of(*config) : memory_recipe_of(sites, resolved);
    const ResolvedPolicy some = only_sites(resolved, a.sites);
    std::vector<Row> rows = some.table();
    std::vector<TensorRow> tensors = tensor_rows(sites, some, config ? &config->resolved : nullptr);
    if (a.fold) {
        rows = fold_blocks(std::move(rows), model.layers);
        tensors = fold_blocks(std::move(tensors), model.layers);
    }
    const std::int64_t batch = a.memory.batch().value_or(named_size(a.model.size).batch);
    const MemoryEstimate memory = estimate_memory(sites, resolved, batch, 2);

    if (a.json) {
        Json json{{"policy", resolved.name},
                  {"description", resolved.description},
                  {"extends", policy.chain},
                  {"model", a.model.kind},
                  {"size", a.model.size},
                  {"loss_scaler", scaler_json(resolved.loss_scaler)},
                  {"reduce", reduce_json(resolved.reduce)},
                  {"optimizer", {{"arithmetic", to_string(CastRule{.format = resolved.optimizer_arithmetic})}}},
                  {"training", training_json(resolved.training)},
                  {"machines", machines_json(resolved)},
                  {"unverified", resolved.unverified()},
                  {"linears", linears_json(resolved)},
                  {"left_out", resolved.left_out_sites()},
                  {"left_out_why", left_out_why_json(resolved)},
                  {"rows", row_table().json(rows)},
                  {"tensors", tensor_table().json(tensors)},
                  {"memory", memory_json(memory, batch)}};
        if (a.memory.is_asked()) json["memory_of_params"] = a.memory.json(resolved.name, recipe, a.model);
        print_json(json);
        return Exit::ok;
    }
    if (a.csv && a.memory.is_asked()) {
        print_text(a.memory.csv(resolved.name, recipe, a.model));
        return Exit::ok;
    }
    if (a.csv) {
        print_text(row_table().csv(rows));
        for (const auto& one : resolved.left_out) eprint("left out: {}: {}\n", one.site, one.why);
        return Exit::ok;
    }
    const std::string body = a.memory.is_asked() ? a.memory.text(resolved.name, recipe, a.model)
                                                 : memory_line(memory, batch) + "\n" + row_table().text(rows) + "\n" +
                                                       tensor_table().text(tensors);
    print("{}: {}\n", resolved.name, resolved.description);
    if (!policy.chain.empty()) print("extends      {}\n", fmt::join(policy.chain, ", "));
    print("model        {}\n", a.model.describe());
    print("loss scaler  {}\n", to_string(resolved.loss_scaler));
    print("ranks        {}\n", to_string(resolved.reduce));
    print("optimizer    arithmetic {}\n", to_string(CastRule{.format = resolved.optimizer_arithmetic}));
    for (const auto& [key, value] : settings_of(resolved.training)) print("{:<24} {}\n", key, value);
    for (const auto& [machine, count] : resolved.machines()) {
        print("matmuls      {:>4} on {}\n", count, machine);
    }
    for (const std::string& reason : resolved.unverified()) print("unverified   {}\n", reason);
    print_text(linears_text(resolved));
    print_text(body);
    return Exit::ok;
}

Exit words(const Arguments& a) {
    const std::vector<PolicyWordGroup> groups = policy_words();
    if (!a.json) {
        print_text(policy_words_text(groups));
        return Exit::ok;
    }
    Json json = Json::array();
    for (const PolicyWordGroup& group : groups) {
        Json list = Json::array();
        for (const PolicyWord& word : group.words) {
            list.push_back({{"of", word.of},
                            {"name", word.name},
                            {"initial", word.initial},
                            {"source", word.source},
                            {"summary", word.summary}});
        }
        json.push_back({{"group", group.name}, {"title", group.title}, {"words", list}});
    }
    print_json(json);
    return Exit::ok;
}

constexpr const char* name_help = "Name of a preset, or path of a .toml file";
constexpr const char* any_help = "Name of a preset, or path of a policy (.toml) or of a config of a framework";

void describe_show(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("NAME", a->name, name_help).required().takes(value_kind::policy);
    verb.flag("--expand", a->expand, "Print every setting: without `extends` and recipes, and with explicit keys");
    verb.flag("--json", a->json, "Print the TOML and its main fields as JSON");
    verb.runs([a] { return show(*a); });
}

/// Adds the options of `explain` and `diff` that select the rows and choose between text, JSON and CSV.
void describe_rows(Command& verb, Arguments& a) {
    verb.option("--sites", a.sites, "Print only rows whose site or site:slot matches this pattern. Default: all rows");
    const Option json = verb.flag("--json", a.json, "Print as JSON");
    verb.flag("--csv", a.csv, "Print as CSV").excludes(json);
}

void describe_config(Command& verb, Arguments& a) {
    verb.group("Options for a framework's config");
    a.import.add_options(verb);
}

void describe_explain(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.group("Policy, model and output");
    verb.option("NAME", a->name, any_help).required().takes(value_kind::policy);
    a->model.add_options(verb);
    verb.flag("--fold", a->fold, "Print the rows of all blocks once, as `block.*`, if the blocks are equal");
    describe_rows(verb, *a);
    verb.group("Memory");
    a->memory.add_options(verb);
    describe_config(verb, *a);
    verb.runs([a, &verb] {
        a->import_options = a->import.options(verb);
        return explain(*a);
    });
}

void describe_diff(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.group("Policies, model and output");
    verb.option("A", a->name, any_help).required().takes(value_kind::policy);
    verb.option("B", a->other, "The policy to compare with A: a preset, .toml file or config")
        .required()
        .takes(value_kind::policy);
    a->model.add_options(verb);
    describe_rows(verb, *a);
    describe_config(verb, *a);
    verb.runs([a, &verb] {
        a->import_options = a->import.options(verb);
        return diff(*a);
    });
}

void describe_words(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.flag("--json", a->json, "Print as JSON");
    verb.runs([a] { return words(*a); });
}

constexpr VerbRow policy_show{"show", show_help, describe_show, show_notes};
constexpr VerbRow policy_explain{"explain", explain_help, describe_explain, explain_notes};
constexpr VerbRow policy_diff{"diff", diff_help, describe_diff, diff_notes};
constexpr VerbRow policy_words_row{"words", words_help, describe_words, words_notes};
constexpr const VerbRow* policy_verbs[] = {&list_verb,   &policy_show,  &policy_explain, &policy_diff,
                                           &import_verb, &history_verb, &advise_verb,    &policy_words_row};

void describe(Command& verb) { verb.verbs(policy_verbs); }

}  // namespace

const VerbRow verb{"policy", help, describe};

}  // namespace macheps::cmd::policies
