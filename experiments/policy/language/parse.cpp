// SPDX-License-Identifier: Apache-2.0
// Parses policy files, which are TOML. Every error names the file, line and column, and a remedy.
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/language/cast_language.hpp"
#include "experiments/policy/language/copied_preset.hpp"
#include "experiments/policy/language/language.hpp"
#include "experiments/policy/language/layer_language.hpp"
#include "experiments/policy/language/policy_name.hpp"
#include "experiments/policy/language/preset_alias.hpp"
#include "experiments/policy/language/recipes.hpp"
#include "experiments/policy/language/reduce_language.hpp"
#include "experiments/policy/rule.hpp"

#include "core/host/float_environment.hpp"
#include "core/host/read_file.hpp"
#include "emulation/machine/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace macheps::policy {

namespace {

using Sources = std::span<const PolicySource>;

constexpr std::uint64_t max_policy_bytes = 1 << 20;

/// Reads one preset or policy file. Errors name `source`, which is a path or the name of a preset. `recorded` contains
/// recorded texts of policies (Policy::sources). If the policy extends another policy, the text of that policy is taken
/// from `recorded` if it is there, and otherwise from the preset or file.
class Reader {
  public:
    Reader(std::string_view text, std::string source, bool from_preset, Sources recorded)
        : text_(text),
          source_(std::move(source)),
          from_preset_(from_preset),
          recorded_(recorded),
          toml_(text, (from_preset ? "preset " : "") + source_) {}

    Policy read(std::vector<std::string>& open) const {
        const toml::table document = toml_.document();
        toml_.only(document, names_of(file_keys), "a policy");

        Policy policy;
        if (const toml::node* base = document.get("extends")) policy = base_policy(*base, open);
        policy.text = text_;
        policy.sources.insert(policy.sources.begin(), {source_, !from_preset_, policy.text});
        policy.name = read_name(document.get("name"));
        policy.description.clear();
        if (const toml::node* node = document.get("description")) policy.description = toml_.text(*node, "description");
        if (const toml::node* node = document.get("reduce")) policy.reduce = read_reduce(toml_, *node);
        if (const toml::node* node = document.get("rule")) read_rules(*node, policy);
        if (const toml::node* node = document.get("loss_scaler")) policy.loss_scaler = read_scaler(*node);
        for (const std::string_view name : training_tables()) {
            if (const toml::node* node = document.get(name)) read_training(name, *node, policy);
        }
        if (!from_preset_) correct_description(policy);
        return policy;
    }

  private:
    /// Returns the name of the policy from `node`. If `node` is null, returns the name of the file without its
    /// extension.
    std::string read_name(const toml::node* node) const {
        const std::string name =
            node != nullptr ? toml_.text(*node, "name") : std::filesystem::path(source_).stem().string();
        const std::string problem = problem_of_policy_name(name);
        if (problem.empty()) return name;
        throw Error(
            {.what = node != nullptr ? problem : problem + " (it is the name of the file, which has no key `name`)",
             .where = node != nullptr ? toml_.where(*node, "name") : source_,
             .fix = "use letters, digits, '-' and '_', and begin with a letter or a digit"});
    }

    Policy base_policy(const toml::node& node, std::vector<std::string>& open) const;
    void read_rules(const toml::node& node, Policy& policy) const;
    Policy::Rule begin_rule(const toml::table& table, int number) const;
    Policy::Rule read_rule(const toml::table& table, int number) const;
    void read_patterns(const toml::node& node, std::string_view key, Policy::Rule& rule) const;
    void read_group(std::string_view group, const toml::node& node, Policy::Rule& rule) const;
    std::int64_t read_matmul(const MatmulKey& key, const toml::node& value, const std::string& slot) const;
    void read_recipe(const toml::node& node, Policy::Rule& rule) const;
    void read_training(std::string_view name, const toml::node& node, Policy& policy) const;
    double read_training_key(const TrainingKey& key, const toml::node& node) const;
    LossScalerConfig read_scaler(const toml::node& node) const;
    const ScalerKind& read_scaler_kind(const toml::node& node, const toml::table& table) const;
    double read_scaler_key(const ScalerKey& key, const toml::node& node) const;

    std::string_view text_;
    std::string source_;
    bool from_preset_;
    Sources recorded_;
    files::TomlReader toml_;
};

bool names_a_file(std::string_view name) { return name.find_first_of("./\\") != std::string_view::npos; }

/// Returns the name of a preset as in the list of presets. Returns the path of a file unchanged.
std::string listed_name(std::string_view name) {
    return names_a_file(name) ? std::string(name) : preset_spelling(name);
}

std::string read_policy_file(const std::filesystem::path& path, const std::string& where) {
    try {
        return read_file(path, max_policy_bytes);
    } catch (const Error& error) {
        std::error_code ignored;
        const bool exists = std::filesystem::exists(path, ignored);
        throw Error(
            {.what = fmt::format("cannot read the policy file '{}': {}", path.string(),
                                 exists ? error.parts().what : "no such file"),
             .where = where,
             .fix = fmt::format("give the path of a .toml file, or a preset: {}", fmt::join(preset_names(), ", "))});
    }
}

/// Loads a preset or file. `open` lists the policies that are being read, outermost first, to find policies that extend
/// each other in a circle.
Policy load(const std::string& source, bool is_file, const std::string& where, std::vector<std::string>& open,
            Sources recorded) {
    if (std::find(open.begin(), open.end(), source) != open.end()) {
        throw Error({.what = fmt::format("'extends' forms a circle: {} -> {}", fmt::join(open, " -> "), source),
                     .where = where,
                     .fix = "remove one 'extends'"});
    }
    if (open.size() >= max_levels) {
        throw Error({.what = fmt::format("'extends' leads through more than {} files", max_levels),
                     .where = where,
                     .fix = "merge some of the files"});
    }
    open.push_back(source);
    const auto known = std::find_if(recorded.begin(), recorded.end(), [&](const PolicySource& one) {
        return one.is_file == is_file &&
               (one.name == source || std::filesystem::path(one.name).lexically_normal() == source);
    });
    const std::string text = known != recorded.end() ? known->text
                             : is_file               ? read_policy_file(source, where)
                                                     : std::string(preset_text(source));
    Policy policy = Reader(text, source, !is_file, recorded).read(open);
    open.pop_back();
    return policy;
}

Policy Reader::base_policy(const toml::node& node, std::vector<std::string>& open) const {
    const std::string at = toml_.where(node, "extends"), name = listed_name(toml_.text(node, "extends"));
    std::string source = name;
    if (names_a_file(name)) {
        // The path is relative to the file that contains it, so that a folder of policies can be moved.
        const std::filesystem::path here = from_preset_ ? "" : std::filesystem::path(source_).parent_path();
        source = (here / name).lexically_normal().string();
    } else {
        const files::Names presets = preset_names();
        const auto is_recorded = [&](const PolicySource& one) { return one.name == name && !one.is_file; };
        if (std::find(presets.begin(), presets.end(), name) == presets.end() &&
            std::none_of(recorded_.begin(), recorded_.end(), is_recorded)) {
            throw Error({.what = fmt::format("unknown preset '{}'", name),
                         .where = at,
                         .fix = suggestion(name, presets) + "; the name of a file needs a dot or a slash"});
        }
    }
    Policy base = load(source, names_a_file(name), at, open, recorded_);
    base.chain.insert(base.chain.begin(), base.name);
    return base;
}

void Reader::read_rules(const toml::node& node, Policy& policy) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) toml_.wrong_type(node, "rule", "an array of tables: write [[rule]] with two brackets");
    int number = 0;
    for (const toml::node& item : *list) {
        policy.rules.push_back(std::make_shared<const Policy::Rule>(read_rule(toml_.table(item, "rule"), ++number)));
    }
}

/// Returns a rule with its source position and its kind (for sites or for parameters), but without patterns and
/// settings. Throws Error if the table has an unknown key.
Policy::Rule Reader::begin_rule(const toml::table& table, int number) const {
    Policy::Rule rule;
    rule.source = source_;
    rule.from_preset = from_preset_;
    rule.number = number;
    rule.at = files::place_of(table.source());
    const toml::node *sites = table.get("sites"), *params = table.get("params");
    if ((sites != nullptr) == (params != nullptr)) {
        throw Error({.what = sites != nullptr ? "a rule has both 'sites' and 'params'"
                                              : "a rule has neither 'sites' nor 'params'",
                     .where = rule.where(rule.at),
                     .fix = "give one of them, or write two rules"});
    }
    rule.about_parameters = params != nullptr;
    // Errors list the keys in the order of `known`. The groups of slots are inserted after the key `sites`, and the
    // slots of a parameter are inserted before the key `cast`.
    files::Names known = rule.about_parameters ? names_of(parameter_rule_keys) : names_of(site_rule_keys);
    const files::Names slots = rule.about_parameters ? names_of(parameter_slots) : slot_groups();
    known.insert(rule.about_parameters ? known.end() - 1 : known.begin() + 1, slots.begin(), slots.end());
    toml_.only(table, known, rule.about_parameters ? "a rule for params" : "a rule for sites");
    return rule;
}

Policy::Rule Reader::read_rule(const toml::table& table, int number) const {
    Policy::Rule rule = begin_rule(table, number);
    const char* about = rule.about_parameters ? "params" : "sites";
    read_patterns(*table.get(about), about, rule);

    // The other keys of a rule change its recipe, so the recipe is read first.
    if (const toml::node* recipe = table.get("recipe")) read_recipe(*recipe, rule);
    bool has_cast = false;
    for (auto&& [key, node] : table) {
        const std::string name{key.str()};
        if (name == about || name == "recipe") continue;
        if (name == "model") {
            const files::Names names(model_names().begin(), model_names().end());
            rule.model = names[toml_.one_of(names, node, name, "model")];
        } else if (read_layer_key(toml_, name, node, rule.layers)) {
            continue;
        } else if (name == "all_gather") {
            rule.gathers_codes = toml_.one_of({"fp8"}, node, name, "format of an all-gather") == 0;
        } else if (name == "cast") {
            has_cast = true;
            rule.casts.push_back({"", read_cast(toml_, node, name), files::place_of(node)});
        } else if (rule.about_parameters) {
            rule.casts.push_back({name, read_cast(toml_, node, name), files::place_of(node)});
        } else {
            read_group(name, node, rule);
        }
    }
    if (rule.casts.empty() && rule.matmuls.empty()) {
        throw Error({.what = "the rule sets nothing",
                     .where = rule.where(rule.at),
                     .fix = rule.about_parameters ? "add a slot such as value = \"bf16\""
                                                  : "add a slot such as forward = { out = \"bf16\" }"});
    }
    const bool only_cast = has_cast && rule.casts.size() == 1 && rule.matmuls.empty();
    for (const Policy::Rule::Pattern& pattern : rule.patterns) {
        if (pattern.has_slot() == has_cast && (!has_cast || only_cast)) continue;
        throw Error({.what = has_cast ? fmt::format("a rule with 'cast' needs patterns with a slot and must not "
                                                    "set other slots: '{}'",
                                                    pattern.text)
                                      : fmt::format("the pattern '{}' names a slot", pattern.text),
                     .where = rule.where(pattern.at),
                     .fix = has_cast ? "write \"SITES:forward.out\" with cast, or SITES with forward = { out = ... }"
                                     : "set its format with cast = \"FORMAT\""});
    }
    return rule;
}

void Reader::read_patterns(const toml::node& node, std::string_view key, Policy::Rule& rule) const {
    const auto add = [&](const toml::node& item) {
        const std::string text = toml_.text(item, key);
        const files::SourcePlace at = files::place_of(item);
        const std::string problem = text.empty()          ? "the pattern is empty"
                                    : !braces_match(text) ? fmt::format("unbalanced braces in '{:.200}'", text)
                                                          : problem_of_pattern(text);
        if (!problem.empty()) {
            throw Error({.what = problem,
                         .where = rule.where(at),
                         .fix = "give a name with * ? and {a,b}, such as \"block.*.{mlp.up,mlp.down}\""});
        }
        rule.patterns.push_back({text, at});
    };
    if (const toml::array* list = node.as_array()) {
        for (const toml::node& item : *list) add(item);
        if (list->empty()) toml_.wrong_type(node, key, "at least one pattern");
    } else if (node.is_string()) {
        add(node);
    } else {
        toml_.wrong_type(node, key, "a pattern or an array of patterns");
    }
}

void Reader::read_group(std::string_view group, const toml::node& node, Policy::Rule& rule) const {
    const toml::table& table = toml_.table(node, group);
    files::Names known = slots_in_group(group);
    if (is_matmul_group(group)) {
        for (const MatmulKey& key : matmul_keys()) {
            if (key.may_stand_in(group)) known.push_back(key.name);
        }
    }
    toml_.only(table, known, group);
    Policy::Rule::MatmulSetting setting;
    setting.matmul = group;
    for (auto&& [key, value] : table) {
        const std::string slot = fmt::format("{}.{}", group, key.str());
        const files::SourcePlace at = files::place_of(value);
        const MatmulKey* row = find_matmul_key(key.str());
        if (row == nullptr) {
            rule.casts.push_back({slot, read_cast(toml_, value, slot), at});
        } else if (row->changes_rule()) {
            setting.keys.push_back({row, read_matmul(*row, value, slot)});
            if (setting.at.line == 0 || row->resets_rule()) setting.at = at;
        } else {
            rule.matmuls.push_back({std::string(group), {{row, read_matmul(*row, value, slot)}}, at});
        }
    }
    if (!setting.keys.empty()) rule.matmuls.push_back(std::move(setting));
}

/// Adds the slots and keys of a recipe to a rule, as if the rule contained them. The value of `recipe` may continue
/// after the name, as in "te-block:stochastic". These words are added to each cast of the recipe that has a scale.
void Reader::read_recipe(const toml::node& node, Policy::Rule& rule) const {
    const std::string text = toml_.text(node, "recipe"), at = toml_.where(node, "recipe");
    const std::size_t colon = std::min(text.find(':'), text.size());
    const Recipe& recipe = recipe_named(std::string_view(text).substr(0, colon), at);
    rule.recipe = text;
    const Reader rows(recipe.rule, fmt::format("recipe {}", recipe.name), false, {});
    const toml::table groups = rows.toml_.document();
    for (auto&& [group, table] : groups) rows.read_group(group.str(), table, rule);
    for (Policy::Rule::SlotCast& each : rule.casts) {
        each.at = files::place_of(node);
        if (each.cast.has_scale()) each.cast = parse_cast(to_string(each.cast) + text.substr(colon), at);
    }
    for (Policy::Rule::MatmulSetting& each : rule.matmuls) each.at = files::place_of(node);
    rule.layers.multiple_of = recipe.multiple_of;
}

/// Returns the value of a matmul's key as the integer that MatmulKey::apply takes.
std::int64_t Reader::read_matmul(const MatmulKey& key, const toml::node& value, const std::string& slot) const {
    switch (key.takes) {
        case MatmulKey::Takes::name:
            return static_cast<std::int64_t>(toml_.one_of(key.names(), value, slot, key.what));
        case MatmulKey::Takes::flag:
            return toml_.flag(value, slot) ? 1 : 0;
        case MatmulKey::Takes::count:
            break;
    }
    return toml_.integer(value, slot, key.least, key.most);
}

/// Reads [optimizer], [clip], [accumulation], [backward] or [stress].
void Reader::read_training(std::string_view name, const toml::node& node, Policy& policy) const {
    const std::string title = fmt::format("[{}]", name);
    const toml::table& table = toml_.table(node, title);
    const std::vector<const TrainingKey*> keys = training_keys_of(name);
    files::Names known = name == "optimizer" ? names_of(optimizer_keys) : files::Names{};
    for (const TrainingKey* key : keys) known.push_back(key->name);
    toml_.only(table, known, title);
    if (const toml::node* format = name == "optimizer" ? table.get("arithmetic") : nullptr) {
        policy.optimizer_arithmetic =
            parse_value_format(toml_.text(*format, "arithmetic"), toml_.where(*format, "[optimizer] arithmetic"));
    }
    for (const TrainingKey* key : keys) {
        if (const toml::node* value = table.get(key->name)) key->set(policy.training, read_training_key(*key, *value));
    }
}

double Reader::read_training_key(const TrainingKey& key, const toml::node& node) const {
    switch (key.takes) {
        case TrainingKey::Takes::name:
            return static_cast<double>(toml_.one_of(key.names(), node, key.name, key.name));
        case TrainingKey::Takes::flag:
            return toml_.flag(node, key.name) ? 1 : 0;
        case TrainingKey::Takes::count:
        case TrainingKey::Takes::number:
            break;
    }
    const double value = key.takes == TrainingKey::Takes::count ? static_cast<double>(toml_.integer(node, key.name))
                                                                : toml_.number(node, key.name);
    if (!std::isfinite(value) || (key.is_good != nullptr && !key.is_good(value))) {
        throw Error({.what = fmt::format("'{}' is {}", key.name, value),
                     .where = toml_.where(node, fmt::format("[{}] {}", key.table, key.name)),
                     .fix = fmt::format("give {}", key.wanted)});
    }
    return value;
}

LossScalerConfig Reader::read_scaler(const toml::node& node) const {
    const toml::table& table = toml_.table(node, "[loss_scaler]");
    const ScalerKind& kind = read_scaler_kind(node, table);
    LossScalerConfig config(kind);
    for (const ScalerKey& key : kind.keys) {
        if (const toml::node* value = table.get(key.name)) config.set(key.name, read_scaler_key(key, *value));
    }
    for (const ScalerKey& key : kind.ignored) {
        if (const toml::node* value = table.get(key.name)) read_scaler_key(key, *value);
    }
    const std::string conflict = kind.conflict == nullptr ? "" : kind.conflict(config);
    if (!conflict.empty()) throw Error({.what = conflict, .where = toml_.where(node, "[loss_scaler]")});
    return config;
}

/// Returns the kind of loss scaler that the table names. Before that, checks that every key of the table belongs to
/// this kind.
const ScalerKind& Reader::read_scaler_kind(const toml::node& node, const toml::table& table) const {
    const toml::node* kind_node = table.get("kind");
    const std::string name = kind_node != nullptr && kind_node->is_string() ? kind_node->as_string()->get() : "";
    const ScalerKind* kind = find_scaler(name);
    // An unknown key is reported before an unknown kind. If the kind is unknown, the keys of every kind are accepted.
    files::Names known = names_of(loss_scaler_keys), kinds;
    for (const ScalerKind* each : scaler_kinds()) {
        kinds.push_back(each->name);
        kinds.insert(kinds.end(), each->aliases.begin(), each->aliases.end());
        if (kind != nullptr && kind != each) continue;
        for (const auto& keys : {each->keys, each->ignored}) {
            for (const ScalerKey& key : keys) {
                if (std::find(known.begin(), known.end(), key.name) == known.end()) known.push_back(key.name);
            }
        }
    }
    toml_.only(table, known, "[loss_scaler]");
    if (kind != nullptr) return *kind;
    if (kind_node == nullptr) {
        throw Error({.what = "[loss_scaler] has no kind",
                     .where = toml_.where(node, "[loss_scaler]"),
                     .fix = fmt::format("use one of {}", fmt::join(kinds, ", "))});
    }
    throw Error({.what = fmt::format("unknown loss scaler '{}'", toml_.text(*kind_node, "kind")),
                 .where = toml_.where(*kind_node, "[loss_scaler] kind"),
                 .fix = suggestion(name, kinds)});
}

double Reader::read_scaler_key(const ScalerKey& key, const toml::node& node) const {
    if (key.type == ScalerValue::flag) return toml_.flag(node, key.name) ? 1 : 0;
    const bool is_count = key.type == ScalerValue::count;
    try {
        if (key.type == ScalerValue::version) return parse_setting(key, toml_.text(node, key.name));
        const double value =
            is_count ? static_cast<double>(toml_.integer(node, key.name)) : toml_.number(node, key.name);
        check_setting(key, value);
        return value;
    } catch (const Error& error) {
        Error::Parts parts = error.parts();
        if (parts.where.empty()) parts.where = toml_.where(node, is_count ? key.name : "[loss_scaler]");
        throw Error(std::move(parts));
    }
}

}  // namespace

Policy parse_policy(std::string_view toml, const std::string& origin) {
    const DefaultFloatModes modes;
    std::vector<std::string> open{origin};
    return Reader(toml, origin, false, {}).read(open);
}

Policy parse_policy(std::span<const PolicySource> sources) {
    const DefaultFloatModes modes;
    std::vector<std::string> open;
    return load(sources.front().name, sources.front().is_file, "", open, sources);
}

Policy load_policy(std::string_view name_or_path) {
    const DefaultFloatModes modes;
    std::vector<std::string> open;
    const bool is_file = names_a_file(name_or_path);
    const std::string source =
        is_file ? std::filesystem::path(name_or_path).lexically_normal().string() : listed_name(name_or_path);
    const std::vector<std::string_view> presets = preset_names();
    const bool is_known = is_file || std::find(presets.begin(), presets.end(), source) != presets.end();
    try {
        return load(source, is_file, "", open, {});
    } catch (const Error& error) {
        if (is_known) throw;
        Error::Parts parts = error.parts();
        parts.exit = Exit::usage;  // the name is from the command line, not from a file
        throw Error(std::move(parts));
    }
}

}  // namespace macheps::policy
