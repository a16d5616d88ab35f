// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/reduce.hpp"
#include "experiments/policy/language/reduce_language.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>

namespace macheps::policy {

namespace {

/// A key of the table [reduce], with the functions that read and print its value.
struct ReduceKey {
    std::string_view name, summary;
    void (*read)(const files::TomlReader&, const toml::node&, ReduceConfig&);
    std::string (*text)(const ReduceConfig&);
};

template <const auto& rows, auto member>
void read_row(const files::TomlReader& toml, const toml::node& node, ReduceConfig& config, std::string_view key) {
    config.*member = &rows[toml.one_of(names_of(rows), node, key, key)];
}

void read_wire(const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
    const std::string text = toml.text(node, "wire"), where = toml.where(node, "[reduce] wire");
    config.wire.reset();
    if (text == "grad") return;
    config.wire = parse_cast(text, where);
    if (!config.wire->has_scale()) return;
    throw Error({.what = fmt::format("'{}' has a scale, but a sum over ranks cannot have one", text),
                 .where = where,
                 .fix = "give a format, such as \"bf16\" or \"fp32\""});
}

void read_accumulate(const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
    const files::Names names{"fp32", "wire"};
    config.accumulates_in_wire = toml.one_of(names, node, "accumulate", "accumulate") == 1;
}

void read_predivide(const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
    config.predivide = toml.number(node, "predivide");
    if (config.predivide >= 1e-6 && config.predivide <= 1e6) return;
    throw Error({.what = fmt::format("'predivide' is {}", config.predivide),
                 .where = toml.where(node, "[reduce] predivide"),
                 .fix = "give 1e-6 to 1e6"});
}

constexpr ReduceKey reduce_rows[] = {
    {"wire",
     "format in which gradients are sent and to which every hop rounds: a cast without a scale, or grad, the "
     "gradient's own format (default: grad)",
     read_wire, [](const ReduceConfig& c) { return c.wire ? to_string(*c.wire) : std::string("grad"); }},
    {"order", "order in which the gradients of the ranks are added (default: ring)",
     [](const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
         read_row<reduce_orders, &ReduceConfig::order>(toml, node, config, "order");
     },
     [](const ReduceConfig& c) { return std::string(c.order->name); }},
    {"start", "only for rings: chunk c begins at rank c + start (default: 1)",
     [](const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
         config.start = toml.integer(node, "start", 0);
     },
     [](const ReduceConfig& c) { return fmt::format("{}", c.start); }},
    {"accumulate",
     "format of the partial sum after each addition: fp32, or wire, the format of the key `wire` (default: fp32)",
     read_accumulate, [](const ReduceConfig& c) { return std::string(c.accumulates_in_wire ? "wire" : "fp32"); }},
    {"average", "where the sum becomes a mean (default: before)",
     [](const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
         read_row<averagings, &ReduceConfig::average>(toml, node, config, "average");
     },
     [](const ReduceConfig& c) { return std::string(c.average->name); }},
    {"predivide", "only with average = \"after\": each part is divided by this number before it is sent (default: 1)",
     read_predivide, [](const ReduceConfig& c) { return fmt::format("{}", c.predivide); }},
    {"by_division", "true: divide, instead of multiplying by the reciprocal rounded to fp32 (default: false)",
     [](const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
         config.divides = toml.flag(node, "by_division");
     },
     [](const ReduceConfig& c) { return std::string(c.divides ? "true" : "false"); }},
    {"bucket", "which gradients are reduced as one vector (default: tensor)",
     [](const files::TomlReader& toml, const toml::node& node, ReduceConfig& config) {
         read_row<bucketings, &ReduceConfig::bucket>(toml, node, config, "bucket");
     },
     [](const ReduceConfig& c) { return std::string(c.bucket->name); }},
};

}  // namespace

std::vector<PolicyKey> reduce_keys() {
    std::vector<PolicyKey> words;
    for (const ReduceKey& key : reduce_rows) words.push_back({key.name, key.summary});
    return words;
}

ReduceConfig read_reduce(const files::TomlReader& toml, const toml::node& node) {
    const toml::table& table = toml.table(node, "[reduce]");
    toml.only(table, names_of(reduce_rows), "[reduce]");
    ReduceConfig config;
    for (const ReduceKey& key : reduce_rows) {
        if (const toml::node* value = table.get(key.name)) key.read(toml, *value, config);
    }
    if (table.contains("predivide") && config.average->name != "after") {
        throw Error({.what = fmt::format("'predivide' has no effect with average = \"{}\"", config.average->name),
                     .where = toml.where(*table.get("predivide"), "[reduce] predivide"),
                     .fix = "remove it, or set average = \"after\""});
    }
    return config;
}

std::vector<std::pair<std::string, std::string>> settings_of(const ReduceConfig& config) {
    std::vector<std::pair<std::string, std::string>> settings;
    for (const ReduceKey& key : reduce_rows) settings.emplace_back(key.name, key.text(config));
    return settings;
}

std::string to_string(const ReduceConfig& config) {
    std::string text;
    const ReduceConfig usual;
    for (const ReduceKey& key : reduce_rows) {
        const bool is_told = key.name == "wire" || key.name == "order" || key.name == "average";
        if (is_told || key.text(config) != key.text(usual)) {
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key.name, key.text(config));
        }
    }
    return text;
}

}  // namespace macheps::policy
