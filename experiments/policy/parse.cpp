// SPDX-License-Identifier: Apache-2.0
// TOML to Policy. Every error names file, line, column and remedy.
#include "experiments/policy/rule.hpp"

#include "emulation/machine/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>

namespace macheps {

namespace {

using Names = std::vector<std::string_view>;

constexpr std::string_view kind_of(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::table:
            return "a table";
        case toml::node_type::array:
            return "an array";
        case toml::node_type::string:
            return "a string";
        case toml::node_type::integer:
            return "an integer";
        case toml::node_type::floating_point:
            return "a number";
        case toml::node_type::boolean:
            return "true or false";
        default:
            return "a date or time";
    }
}

SourcePlace place_of(const toml::source_region& source) { return {source.begin.line, source.begin.column}; }

using Sources = std::span<const PolicySource>;

/// Reads one file. `source` is what errors name: a path, or a preset's name. What it extends is looked for among
/// `recorded` first.
class Reader {
  public:
    Reader(std::string_view text, std::string source, bool from_preset, Sources recorded)
        : text_(text), source_(std::move(source)), from_preset_(from_preset), recorded_(recorded) {}

    Policy read(std::vector<std::string>& open) {
        toml::table document;
        try {
            document = parse_document();
        } catch (const toml::parse_error& error) {
            throw Error({.what = std::string(error.description()),
                         .where = where(place_of(error.source())),
                         .fix = "the file must be TOML 1.0"});
        }
        only(document, {"name", "description", "extends", "rule", "loss_scaler", "optimizer"}, "a policy");

        Policy policy;
        if (const toml::node* base = document.get("extends")) policy = base_policy(*base, open);
        policy.text = text_;
        policy.sources.insert(policy.sources.begin(), {source_, !from_preset_, policy.text});
        policy.name = std::filesystem::path(source_).stem().string();
        if (const toml::node* node = document.get("name")) policy.name = name_at(*node);
        policy.description.clear();
        if (const toml::node* node = document.get("description")) policy.description = text_at(*node, "description");
        if (const toml::node* node = document.get("rule")) read_rules(*node, policy);
        if (const toml::node* node = document.get("loss_scaler")) policy.loss_scaler = read_scaler(*node);
        if (const toml::node* node = document.get("optimizer")) {
            const toml::table& table = table_at(*node, "[optimizer]");
            only(table, {"arithmetic"}, "[optimizer]");
            if (const toml::node* format = table.get("arithmetic")) {
                policy.optimizer_arithmetic =
                    parse_value_format(text_at(*format, "arithmetic"), where(*format, "[optimizer] arithmetic"));
            }
        }
        return policy;
    }

  private:
    toml::table parse_document() const { return toml::parse(text_, source_); }

    std::string where(SourcePlace at, std::string_view what = {}) const {
        const std::string place = fmt::format("{}{}:{}:{}", from_preset_ ? "preset " : "", source_, at.line, at.column);
        return what.empty() ? place : fmt::format("{} ({})", place, what);
    }
    std::string where(const toml::node& node, std::string_view what) const {
        return where(place_of(node.source()), what);
    }

    [[noreturn]] void wrong_type(const toml::node& node, std::string_view key, std::string_view wanted) const {
        throw Error({.what = fmt::format("'{}' is {}", key, kind_of(node)),
                     .where = where(node, key),
                     .fix = fmt::format("give {}", wanted)});
    }
    const toml::table& table_at(const toml::node& node, std::string_view key) const {
        if (!node.is_table()) wrong_type(node, key, "a table");
        return *node.as_table();
    }
    std::string text_at(const toml::node& node, std::string_view key) const {
        if (!node.is_string()) wrong_type(node, key, "a string");
        return node.as_string()->get();
    }
    bool bool_at(const toml::node& node, std::string_view key) const {
        if (!node.is_boolean()) wrong_type(node, key, "true or false");
        return node.as_boolean()->get();
    }
    double number_at(const toml::node& node, std::string_view key) const {
        if (!node.is_number()) wrong_type(node, key, "a number");
        return *node.value<double>();
    }
    std::int64_t integer_at(const toml::node& node, std::string_view key, std::int64_t least,
                            std::int64_t most = std::numeric_limits<int>::max()) const {
        if (!node.is_integer()) wrong_type(node, key, "an integer");
        const std::int64_t value = node.as_integer()->get();
        if (value < least || value > most) {
            throw Error({.what = fmt::format("'{}' is {}", key, value),
                         .where = where(node, key),
                         .fix = fmt::format("give {} to {}", least, most)});
        }
        return value;
    }

    /// A policy's name stands in tables, file names and comma-separated options.
    std::string name_at(const toml::node& node) const {
        const std::string name = text_at(node, "name");
        const auto bad = [](unsigned char c) { return c < 0x20 || c == 0x7f || c == ','; };
        if (!name.empty() && std::none_of(name.begin(), name.end(), bad)) return name;
        throw Error({.what = name.empty() ? "the name is empty" : "the name has a comma or a control character",
                     .where = where(node, "name"),
                     .fix = "give letters, digits, '-' and '_'"});
    }

    /// Throws for the first key of `table` that is not among `known`.
    void only(const toml::table& table, const Names& known, std::string_view what) const {
        for (auto&& [key, node] : table) {
            const std::string_view name = key.str();
            if (std::find(known.begin(), known.end(), name) != known.end()) continue;
            throw Error({.what = fmt::format("unknown key '{}' in {}", name, what),
                         .where = where(place_of(key.source())),
                         .fix = suggestion(name, known)});
        }
    }

    Policy base_policy(const toml::node& node, std::vector<std::string>& open) const;
    void read_rules(const toml::node& node, Policy& policy) const;
    Policy::Rule read_rule(const toml::table& table, int number) const;
    void read_patterns(const toml::node& node, std::string_view key, Policy::Rule& rule) const;
    void read_group(std::string_view group, const toml::node& node, Policy::Rule& rule) const;
    void read_matmul(std::string_view key, const toml::node& value, const std::string& slot,
                     Policy::Rule::MatmulSetting& setting) const;
    std::string read_model(const toml::node& node) const;
    CastRule read_cast(const toml::node& node, const std::string& slot) const;
    LossScalerConfig read_scaler(const toml::node& node) const;

    std::string_view text_;
    std::string source_;
    bool from_preset_;
    Sources recorded_;
};

/// What a matmul's table may say beside its casts.
constexpr std::string_view matmul_keys[] = {"machine", "rule",          "promote", "promotion",
                                            "split_k", "slice_granule", "join",    "scale_order"};

bool names_a_file(std::string_view name) { return name.find_first_of("./\\") != std::string_view::npos; }

std::string read_file(const std::filesystem::path& path, const std::string& where) {
    std::error_code ignored;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (!file || std::filesystem::is_directory(path, ignored) || !(text << file.rdbuf()).good()) {
        // An empty file sets failbit on the stream written to; that is no failure to read.
        if (file && !std::filesystem::is_directory(path, ignored) && std::filesystem::file_size(path, ignored) == 0)
            return {};
        const bool exists = std::filesystem::exists(path, ignored);
        throw Error(
            {.what = fmt::format("cannot read the policy file '{}'{}", path.string(), exists ? "" : ": no such file"),
             .where = where,
             .fix = fmt::format("give the path of a .toml file, or a preset: {}", fmt::join(preset_names(), ", "))});
    }
    return text.str();
}

/// The policy of a preset or file; `open` holds the sources being read, outermost first.
Policy load(const std::string& source, bool is_file, const std::string& where, std::vector<std::string>& open,
            Sources recorded) {
    if (std::find(open.begin(), open.end(), source) != open.end()) {
        throw Error({.what = fmt::format("'extends' runs in a circle: {} -> {}", fmt::join(open, " -> "), source),
                     .where = where,
                     .fix = "remove one 'extends'"});
    }
    open.push_back(source);
    const auto known = std::find_if(recorded.begin(), recorded.end(), [&](const PolicySource& one) {
        return one.name == source && one.is_file == is_file;
    });
    const std::string text = known != recorded.end() ? known->text
                             : is_file               ? read_file(source, where)
                                                     : std::string(preset_text(source));
    Policy policy = Reader(text, source, !is_file, recorded).read(open);
    open.pop_back();
    return policy;
}

Policy Reader::base_policy(const toml::node& node, std::vector<std::string>& open) const {
    const std::string name = text_at(node, "extends"), at = where(node, "extends");
    std::string source = name;
    if (names_a_file(name)) {
        // Relative to the file that says it, so that a folder of policies can be moved.
        const std::filesystem::path here = from_preset_ ? "" : std::filesystem::path(source_).parent_path();
        source = (here / name).lexically_normal().string();
    } else {
        const Names presets = preset_names();
        const auto is_recorded = [&](const PolicySource& one) { return one.name == name && !one.is_file; };
        if (std::find(presets.begin(), presets.end(), name) == presets.end() &&
            std::none_of(recorded_.begin(), recorded_.end(), is_recorded)) {
            throw Error({.what = fmt::format("unknown preset '{}'", name),
                         .where = at,
                         .fix = suggestion(name, presets) + "; a file's name has a dot or a slash"});
        }
    }
    Policy base = load(source, names_a_file(name), at, open, recorded_);
    base.chain.insert(base.chain.begin(), base.name);
    return base;
}

void Reader::read_rules(const toml::node& node, Policy& policy) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) wrong_type(node, "rule", "an array of tables: write [[rule]] with two brackets");
    int number = 0;
    for (const toml::node& item : *list) {
        policy.rules.push_back(std::make_shared<const Policy::Rule>(read_rule(table_at(item, "rule"), ++number)));
    }
}

Policy::Rule Reader::read_rule(const toml::table& table, int number) const {
    Policy::Rule rule;
    rule.source = source_;
    rule.from_preset = from_preset_;
    rule.number = number;
    rule.at = place_of(table.source());
    const toml::node *sites = table.get("sites"), *params = table.get("params");
    if ((sites != nullptr) == (params != nullptr)) {
        throw Error({.what = sites != nullptr ? "a rule has both 'sites' and 'params'"
                                              : "a rule has neither 'sites' nor 'params'",
                     .where = rule.where(rule.at),
                     .fix = "give one of them; write two rules for both"});
    }
    rule.about_parameters = params != nullptr;
    if (rule.about_parameters) {
        only(table, {"params", "model", "value", "master", "grad", "moment1", "moment2", "update", "cast"},
             "a rule for params");
    } else {
        only(table,
             {"sites", "forward", "grad", "input_grad", "weight_grad", "bias_grad", "grad_a", "grad_b", "cast",
              "multiple_of", "model"},
             "a rule for sites");
    }
    read_patterns(rule.about_parameters ? *params : *sites, rule.about_parameters ? "params" : "sites", rule);

    bool has_cast = false;
    for (auto&& [key, node] : table) {
        const std::string name{key.str()};
        if (name == "sites" || name == "params") continue;
        if (name == "model") {
            rule.model = read_model(node);
        } else if (name == "multiple_of") {
            rule.multiple_of = static_cast<int>(integer_at(node, name, 1));
        } else if (name == "cast") {
            has_cast = true;
            rule.casts.push_back({"", read_cast(node, name), place_of(node.source())});
        } else if (rule.about_parameters) {
            rule.casts.push_back({name, read_cast(node, name), place_of(node.source())});
        } else {
            read_group(name, node, rule);
        }
    }
    if (rule.casts.empty() && rule.matmuls.empty()) {
        throw Error({.what = "the rule says nothing",
                     .where = rule.where(rule.at),
                     .fix = rule.about_parameters ? "add a slot such as value = \"bf16\""
                                                  : "add a slot such as forward = { out = \"bf16\" }"});
    }
    const bool only_cast = has_cast && rule.casts.size() == 1 && rule.matmuls.empty();
    for (const Policy::Rule::Pattern& pattern : rule.patterns) {
        if (pattern.has_slot() == has_cast && (!has_cast || only_cast)) continue;
        throw Error(
            {.what = has_cast ? fmt::format("'cast' needs patterns with a slot and no other slots; '{}'", pattern.text)
                              : fmt::format("the pattern '{}' names a slot", pattern.text),
             .where = rule.where(pattern.at),
             .fix = has_cast ? "write \"SITES:forward.out\" with cast, or SITES with forward = { out = ... }"
                             : "say what to do there with cast = \"FORMAT\""});
    }
    return rule;
}

void Reader::read_patterns(const toml::node& node, std::string_view key, Policy::Rule& rule) const {
    const auto add = [&](const toml::node& item) {
        const std::string text = text_at(item, key);
        const SourcePlace at = place_of(item.source());
        if (text.empty() || !braces_match(text)) {
            throw Error({.what = text.empty() ? "the pattern is empty" : fmt::format("unbalanced braces in '{}'", text),
                         .where = rule.where(at),
                         .fix = "a pattern is a name with * ? and {a,b}, such as \"block.*.{mlp.up,mlp.down}\""});
        }
        rule.patterns.push_back({text, at});
    };
    if (const toml::array* list = node.as_array()) {
        for (const toml::node& item : *list) add(item);
        if (list->empty()) wrong_type(node, key, "at least one pattern");
    } else if (node.is_string()) {
        add(node);
    } else {
        wrong_type(node, key, "a pattern or an array of patterns");
    }
}

std::string Reader::read_model(const toml::node& node) const {
    const std::string name = text_at(node, "model");
    const Names known(model_names().begin(), model_names().end());
    if (std::find(known.begin(), known.end(), name) != known.end()) return name;
    throw Error({.what = fmt::format("unknown model '{}'", name),
                 .where = where(node, "model"),
                 .fix = suggestion(name, known)});
}

void Reader::read_group(std::string_view group, const toml::node& node, Policy::Rule& rule) const {
    const toml::table& table = table_at(node, group);
    Names known;
    if (group == "forward") {
        known = {"in",       "a",   "b",   "bias",   "out",     "scaled",    "mean",      "normed",
                 "inv_freq", "cos", "sin", "direct", "rotated", "activated", "bias_after"};
    } else if (group == "grad") {
        known = {"in", "out", "scaled", "normed", "direct", "rotated", "activated", "up"};
    } else if (group == "grad_b") {
        known = {"a", "b", "out", "sum"};
    } else if (group == "weight_grad") {
        known = {"a", "b", "out", "terms"};
    } else if (group == "bias_grad") {
        known = {"out"};
    } else {
        known = {"a", "b", "out"};
    }
    const bool is_matmul = group != "grad" && group != "bias_grad";
    if (is_matmul) known.insert(known.end(), std::begin(matmul_keys), std::end(matmul_keys));
    only(table, known, group);
    Policy::Rule::MatmulSetting setting;
    setting.matmul = group;
    for (auto&& [key, value] : table) {
        const std::string slot = fmt::format("{}.{}", group, key.str());
        const SourcePlace at = place_of(value.source());
        if (std::find(std::begin(matmul_keys), std::end(matmul_keys), key.str()) != std::end(matmul_keys)) {
            read_matmul(key.str(), value, slot, setting);
            if (setting.at.line == 0 || key.str() == "machine" || key.str() == "rule") setting.at = at;
        } else if (key.str() == "bias_after") {
            Policy::Rule::MatmulSetting& ending = rule.matmuls.emplace_back();
            ending.matmul = group;
            ending.bias_after = bool_at(value, slot);
            ending.at = at;
        } else {
            rule.casts.push_back({slot, read_cast(value, slot), at});
        }
    }
    if (setting.changes_rule()) rule.matmuls.push_back(std::move(setting));
}

/// One of `matmul_keys`.
void Reader::read_matmul(std::string_view key, const toml::node& value, const std::string& slot,
                         Policy::Rule::MatmulSetting& setting) const {
    /// The enumerator of that name.
    const auto one_of = [&](const auto& names, const char* what) {
        const std::string name = text_at(value, slot);
        const auto found = std::find(names.begin(), names.end(), name);
        if (found == names.end()) {
            throw Error({.what = fmt::format("unknown {} '{}'", what, name),
                         .where = where(value, slot),
                         .fix = suggestion(name, Names(names.begin(), names.end()))});
        }
        return static_cast<int>(found - names.begin());
    };
    if (key == "machine") {
        Names names;
        for (const Machine* each : all_machines) names.push_back(each->name);
        setting.machine = all_machines[static_cast<std::size_t>(one_of(names, "machine"))];
    } else if (key == "rule") {
        Names names;
        for (const NamedMatmulRule& each : all_matmul_rules()) names.push_back(each.name);
        setting.named = &all_matmul_rules()[static_cast<std::size_t>(one_of(names, "matmul rule"))];
    } else if (key == "promote") {
        setting.promote = static_cast<int>(integer_at(value, slot, 0));
    } else if (key == "promotion") {
        setting.promotion = static_cast<Promotion>(one_of(promotion_names, "promotion"));
    } else if (key == "split_k") {
        setting.split_k = static_cast<int>(integer_at(value, slot, 1, 1024));  // libraries stop at some tens
    } else if (key == "slice_granule") {
        setting.slice_granule = static_cast<int>(integer_at(value, slot, 1));
    } else if (key == "join") {
        setting.join = static_cast<SliceJoin>(one_of(slice_join_names, "join"));
    } else {
        setting.scale_order = static_cast<ScaleOrder>(one_of(scale_order_names, "scale order"));
    }
}

CastRule Reader::read_cast(const toml::node& node, const std::string& slot) const {
    if (node.is_string()) return parse_cast(node.as_string()->get(), where(node, slot));
    if (!node.is_table()) wrong_type(node, slot, "a cast such as \"bf16\" or \"e4m3fn/tensor\"");
    const toml::table& table = *node.as_table();
    only(table, {"format", "round", "overflow", "scaling", "scale_rule", "random_bits"}, slot);
    const toml::node* format = table.get("format");
    if (format == nullptr) {
        throw Error({.what = "the cast has no format", .where = where(node, slot), .fix = "add format = \"bf16\""});
    }
    const auto text = [&](const char* key) -> std::string {
        const toml::node* value = table.get(key);
        return value == nullptr ? "" : text_at(*value, fmt::format("{}.{}", slot, key));
    };
    const auto place = [&](const char* key) { return where(*table.get(key), fmt::format("{}.{}", slot, key)); };
    CastRule cast = parse_cast("fp32", place("format"));
    cast.format = parse_value_format(text("format"), place("format"));
    if (table.contains("scaling")) cast.granularity = parse_granularity(text("scaling"), place("scaling"));
    if (cast.has_scale()) cast.overflow = Overflow::saturate;
    cast.scale_rule = usual_rule(*cast.granularity);
    if (table.contains("round")) cast.round = parse_round(text("round"), place("round"));
    if (table.contains("overflow")) cast.overflow = parse_overflow(text("overflow"), place("overflow"));
    if (table.contains("scale_rule")) cast.scale_rule = parse_scale_rule(text("scale_rule"), place("scale_rule"));
    if (const toml::node* bits = table.get("random_bits")) {
        cast.random_bits = check_random_bits(integer_at(*bits, slot + ".random_bits", 1), place("random_bits"));
    }
    check_scaling(cast, where(node, slot));
    return cast;
}

LossScalerConfig Reader::read_scaler(const toml::node& node) const {
    using Kind = LossScalerConfig::Kind;
    const toml::table& table = table_at(node, "[loss_scaler]");
    only(table, {"kind", "init_scale", "growth_factor", "backoff_factor", "growth_interval"}, "[loss_scaler]");
    const toml::node* kind_node = table.get("kind");
    if (kind_node == nullptr) {
        throw Error({.what = "[loss_scaler] has no kind",
                     .where = where(node, "[loss_scaler]"),
                     .fix = "one of none, static, torch"});
    }
    LossScalerConfig config;
    const std::string name = text_at(*kind_node, "kind");
    const Names kinds{"none", "static", "torch"};
    const auto kind = std::find(kinds.begin(), kinds.end(), name);
    if (kind == kinds.end()) {
        throw Error({.what = fmt::format("unknown loss scaler '{}'", name),
                     .where = where(*kind_node, "[loss_scaler] kind"),
                     .fix = suggestion(name, kinds)});
    }
    config.kind = static_cast<Kind>(kind - kinds.begin());
    const auto number = [&](const char* key, double& value, bool (*good)(double), const char* wanted) {
        const toml::node* at = table.get(key);
        if (at == nullptr) return;
        value = number_at(*at, key);
        if (good(value)) return;
        throw Error(
            {.what = fmt::format("'{}' is {}", key, value), .where = where(*at, "[loss_scaler]"), .fix = wanted});
    };
    double scale = config.init_scale;
    // The scale is an fp32 number in every framework; one that fp32 cannot hold would start as Inf or 0.
    number(
        "init_scale", scale, [](double x) { return x >= 0x1p-149 && x <= 0x1.fffffep127; },
        "give a positive fp32 number");
    config.init_scale = static_cast<float>(scale);
    number(
        "growth_factor", config.growth_factor, [](double x) { return x > 1 && std::isfinite(x); }, "give more than 1");
    number(
        "backoff_factor", config.backoff_factor, [](double x) { return x > 0 && x < 1; },
        "give more than 0, less than 1");
    if (const toml::node* at = table.get("growth_interval")) {
        config.growth_interval = static_cast<int>(integer_at(*at, "growth_interval", 1));
    }
    return config;
}

}  // namespace

std::string Policy::Rule::origin() const {
    return fmt::format("{}{}, rule {}", from_preset ? "preset " : "", source, number);
}

std::string Policy::Rule::where(SourcePlace place) const {
    return fmt::format("{}{}:{}:{} (rule {})", from_preset ? "preset " : "", source, place.line, place.column, number);
}

void Policy::Rule::MatmulSetting::apply_to(MatmulChoice& choice) const {
    MatmulRule& rule = choice.rule;
    if (bias_after) choice.bias_after = *bias_after;
    if (!changes_rule()) return;
    if (named != nullptr) {
        const Machine* before = rule.machine;
        rule = named->rule;
        if (rule.machine == nullptr) rule.machine = before;
    } else if (machine != nullptr) {
        rule = {};
    }
    // A kernel keeps its name while only what its caller chooses is said: slices, the machine of one that serves many,
    // the interval of one that takes it.
    if (named != nullptr || machine != nullptr) choice.named = named;
    if (choice.named != nullptr) {
        const bool is_elsewhere = machine != nullptr && choice.named->rule.machine != nullptr;
        const bool has_own_interval = promote && !choice.named->takes_interval;
        if (is_elsewhere || has_own_interval || promotion || join || scale_order) choice.named = nullptr;
    }
    if (machine != nullptr) rule.machine = machine;
    if (promotion) rule.promotion = *promotion;
    if (promote) {
        rule.promotion_interval = *promote;
        if (*promote == 0) rule.promotion = Promotion::none;
        if (*promote != 0 && rule.promotion == Promotion::none) rule.promotion = Promotion::add;
    }
    if (rule.promotion == Promotion::none) rule.promotion_interval = 0;
    if (split_k) rule.slices = *split_k;
    if (slice_granule) rule.slice_granule = *slice_granule;
    if (join) rule.join = *join;
    if (scale_order) rule.scale_order = *scale_order;
}

Policy parse_policy(std::string_view toml, const std::string& origin) {
    std::vector<std::string> open{origin};
    return Reader(toml, origin, false, {}).read(open);
}

Policy parse_policy(std::span<const PolicySource> sources) {
    std::vector<std::string> open;
    return load(sources.front().name, sources.front().is_file, "", open, sources);
}

Policy load_policy(std::string_view name_or_path) {
    std::vector<std::string> open;
    const bool is_file = names_a_file(name_or_path);
    const std::string source =
        is_file ? std::filesystem::path(name_or_path).lexically_normal().string() : std::string(name_or_path);
    return load(source, is_file, "", open, {});
}

}  // namespace macheps
