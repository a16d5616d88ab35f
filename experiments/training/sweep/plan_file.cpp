// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/plan_file.hpp"

#include "core/host/read_file.hpp"
#include "experiments/files/config/toml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_plan_bytes = 1 << 20;
constexpr std::int64_t max_seeds = 100000;

/// Options of `macheps train` that a sweep sets itself, or that do not affect any row.
constexpr std::string_view own_options[] = {
    "config", "device",       "dry-run", "dump-step", "export-inputs", "force", "from",   "hash-sites", "jobs",
    "json",   "matrix-units", "memory",  "no-report", "out",           "quiet", "resume", "stress",     "threads"};

/// Returns the members of a table in the order in which the file lists them. `table` itself has them sorted by name.
std::vector<std::pair<std::string, const toml::node*>> members_of(const toml::table& table) {
    std::vector<std::pair<std::string, const toml::node*>> members;
    for (auto&& [key, node] : table) members.emplace_back(std::string(key.str()), &node);
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
        const files::SourcePlace left = files::place_of(*a.second), right = files::place_of(*b.second);
        return std::pair(left.line, left.column) < std::pair(right.line, right.column);
    });
    return members;
}

PlanValue value_of(const files::TomlReader& reader, const toml::node& node, std::string_view key) {
    if (node.is_string()) return {node.as_string()->get()};
    if (node.is_integer()) return {fmt::format("{}", node.as_integer()->get())};
    if (node.is_floating_point() && std::isfinite(node.as_floating_point()->get()))
        return {fmt::format("{}", node.as_floating_point()->get())};
    if (node.is_boolean()) return {node.as_boolean()->get() ? "true" : "false", true};
    reader.wrong_type(node, key, "a string, a number, or true or false");
}

/// Returns the values of a list. A scalar is treated as a list with one value.
std::vector<PlanValue> values_of(const files::TomlReader& reader, const toml::node& node, std::string_view key) {
    if (!node.is_array()) return {value_of(reader, node, key)};
    std::vector<PlanValue> values;
    for (const toml::node& one : *node.as_array()) {
        PlanValue value = value_of(reader, one, key);
        if (std::find(values.begin(), values.end(), value) != values.end()) {
            throw Error({.what = fmt::format("'{}' appears twice in '{}'", value.text, key),
                         .where = reader.where(one, key),
                         .fix = "name each value once"});
        }
        values.push_back(std::move(value));
    }
    if (values.empty()) {
        throw Error({.what = fmt::format("'{}' has no value, so nothing would be trained", key),
                     .where = reader.where(node, key),
                     .fix = "give it a value, or remove it"});
    }
    return values;
}

void check_option(const files::TomlReader& reader, const toml::node& node, const std::string& name) {
    const bool is_own = std::find(std::begin(own_options), std::end(own_options), name) != std::end(own_options);
    if (is_own || name == policy_axis || name == seeds_axis) {
        throw Error(
            {.what = is_own ? fmt::format("'{}' is set by the sweep", name) : fmt::format("'{}' is an axis", name),
             .where = reader.where(node, name),
             .fix = is_own ? "remove it" : "put it into [axes]"});
    }
    if (name.starts_with('-')) {
        throw Error({.what = fmt::format("'{}' begins with a dash", name),
                     .where = reader.where(node, name),
                     .fix = "write the long name of the option without dashes: token-weight"});
    }
}

void read_options(const files::TomlReader& reader, const toml::table& table, PlanFile& plan) {
    for (const auto& [name, node] : members_of(table)) {
        check_option(reader, *node, name);
        if (node->is_array()) {
            throw Error({.what = fmt::format("'{}' has several values", name),
                         .where = reader.where(*node, name),
                         .fix = "put it into [axes]"});
        }
        plan.train.push_back({name, {value_of(reader, *node, name)}, reader.where(*node, name)});
    }
}

std::vector<std::int64_t> seeds_of(const files::TomlReader& reader, const toml::node& node) {
    std::string text;
    for (const PlanValue& value : values_of(reader, node, seeds_axis)) text += (text.empty() ? "" : ",") + value.text;
    if (auto seeds = parse_seeds(text)) return *seeds;
    throw Error({.what = fmt::format("'{}' is not a valid list of seeds", text),
                 .where = reader.where(node, seeds_axis),
                 .fix = "give whole numbers from 0 on, each once: \"0..4\", or [0, 1, 7]"});
}

void read_axes(const files::TomlReader& reader, const toml::table& table, PlanFile& plan) {
    for (const auto& [name, node] : members_of(table)) {
        if (name == policy_axis) {
            for (const PlanValue& value : values_of(reader, *node, name)) {
                if (value.is_switch) reader.wrong_type(*node, name, "names of policies");
                plan.policies.push_back(value.text);
            }
            plan.where_policies = reader.where(*node, name);
        } else if (name == seeds_axis) {
            plan.seeds = seeds_of(reader, *node);
        } else {
            check_option(reader, *node, name);
            const auto same = [&name = name](const PlanOption& option) { return option.name == name; };
            if (std::any_of(plan.train.begin(), plan.train.end(), same)) {
                throw Error({.what = fmt::format("'{}' appears in [train] and in [axes]", name),
                             .where = reader.where(*node, name),
                             .fix = "keep it in only one of them"});
            }
            plan.axes.push_back({name, values_of(reader, *node, name), reader.where(*node, name)});
        }
    }
}

PlanExclusion exclusion_of(const files::TomlReader& reader, const toml::node& node, const PlanFile& plan) {
    PlanExclusion exclusion{.patterns = {}, .where = reader.where(node, "exclude")};
    files::Names known{policy_axis, seeds_axis};
    for (const PlanOption& axis : plan.axes) known.push_back(axis.name);
    const toml::table& table = reader.table(node, "exclude");
    reader.only(table, known, "[[exclude]], whose keys are axes");
    for (const auto& [name, value] : members_of(table)) {
        PlanExclusion::Pattern pattern{name, {}};
        for (const PlanValue& glob : values_of(reader, *value, name)) pattern.globs.push_back(glob.text);
        exclusion.patterns.push_back(std::move(pattern));
    }
    if (!exclusion.patterns.empty()) return exclusion;
    throw Error(
        {.what = "this exclusion excludes everything", .where = exclusion.where, .fix = "name axes and their values"});
}

/// Returns true if `name` is a valid name for a job and for a folder.
bool is_plain(std::string_view name) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return !name.empty() && name.size() <= 100 && name.find_first_not_of(plain) == name.npos && name[0] != '.' &&
           name[0] != '-';
}

void check_name(const files::TomlReader& reader, const toml::node& node, const std::string& name) {
    if (is_plain(name)) return;
    throw Error({.what = fmt::format("'{}' is not a valid name of a sweep", name),
                 .where = reader.where(node, "name"),
                 .fix = "use letters, digits, '-', '_' and '.', and begin with a letter or a digit"});
}

void read_head(const files::TomlReader& reader, const toml::table& document, PlanFile& plan) {
    reader.only(document, {"name", "train", "axes", "exclude", "units", "rows"}, "a plan");
    if (const toml::node* name = document.get("name")) {
        plan.name = reader.text(*name, "name");
        check_name(reader, *name, plan.name);
    }
    if (const toml::node* units = document.get("units")) {
        const toml::table& table = reader.table(*units, "units");
        reader.only(table, {"minutes"}, "[units]");
        if (const toml::node* minutes = table.get("minutes")) {
            plan.minutes = reader.number(*minutes, "minutes");
            if (!(plan.minutes > 0)) {
                throw Error({.what = fmt::format("a unit cannot take {} minutes", plan.minutes),
                             .where = reader.where(*minutes, "minutes"),
                             .fix = "give a number above 0, such as 30"});
            }
        }
    }
    if (const toml::node* rows = document.get("rows")) {
        const toml::table& table = reader.table(*rows, "rows");
        reader.only(table, {"sites", "exponents"}, "[rows]");
        if (const toml::node* sites = table.get("sites")) plan.sites = reader.flag(*sites, "sites");
        if (const toml::node* exponents = table.get("exponents")) plan.exponents = reader.flag(*exponents, "exponents");
    }
}

/// Turns off the options that produce rows which the plan leaves out.
void leave_rows_out(PlanFile& plan) {
    const auto leave_out = [&plan](const char* option, const char* rows) {
        for (const auto* options : {&plan.train, &plan.axes}) {
            for (const PlanOption& given : *options) {
                if (given.name != option) continue;
                throw Error({.what = fmt::format("'{}' has no effect if [rows] leaves out {}", option, rows),
                             .where = given.where,
                             .fix = fmt::format("remove it, or set `{} = true` in [rows]", rows)});
            }
        }
        plan.train.push_back({option, {{"0"}}, plan.path.string()});
    };
    if (!plan.sites) leave_out("probe-every", "sites");
    if (!plan.exponents && plan.sites) leave_out("histogram-every", "exponents");
}

}  // namespace

std::optional<std::vector<std::int64_t>> parse_seeds(std::string_view text) {
    std::vector<std::int64_t> seeds;
    const auto number = [](std::string_view word) -> std::optional<std::int64_t> {
        std::int64_t value = -1;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc{} || end != word.data() + word.size() || value < 0) return std::nullopt;
        return value;
    };
    for (bool is_more = true; is_more;) {
        const std::size_t comma = text.find(',');
        is_more = comma != text.npos;
        const std::string_view word = text.substr(0, comma);
        text.remove_prefix(is_more ? comma + 1 : text.size());
        const std::size_t dots = word.find("..");
        const auto first = number(word.substr(0, dots)),
                   last = dots == word.npos ? first : number(word.substr(dots + 2));
        if (!first || !last || *last < *first || *last - *first >= max_seeds) return std::nullopt;
        for (std::int64_t seed = *first; seed <= *last; ++seed) seeds.push_back(seed);
    }
    if (std::set<std::int64_t>(seeds.begin(), seeds.end()).size() != seeds.size()) return std::nullopt;
    return seeds;
}

PlanFile read_plan_file(const fs::path& path) {
    PlanFile plan;
    plan.path = path;
    plan.text = read_file(path, max_plan_bytes);
    plan.name = is_plain(path.stem().string()) ? path.stem().string() : "sweep";
    const files::TomlReader reader(plan.text, path.string());
    const toml::table document = reader.document();
    read_head(reader, document, plan);
    if (const toml::node* train = document.get("train")) read_options(reader, reader.table(*train, "train"), plan);
    const toml::node* axes = document.get("axes");
    if (axes != nullptr) read_axes(reader, reader.table(*axes, "axes"), plan);
    if (plan.policies.empty()) {
        throw Error({.what = "the plan names no policy",
                     .where = axes == nullptr ? path.string() : reader.where(*axes, "axes"),
                     .fix = "give `policy` in [axes]: presets, such as \"fp8-*\", or .toml files next to the plan"});
    }
    if (const toml::node* exclude = document.get("exclude")) {
        if (!exclude->is_array_of_tables())
            reader.wrong_type(*exclude, "exclude", "an array of tables: write [[exclude]] with two brackets");
        for (const toml::node& one : *exclude->as_array()) plan.exclusions.push_back(exclusion_of(reader, one, plan));
    }
    leave_rows_out(plan);
    return plan;
}

}  // namespace macheps::training
