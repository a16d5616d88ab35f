// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy_import_output.hpp"
#include "experiments/policy/import/framework.hpp"
#include "experiments/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps {

namespace {

Json scalar_json(const FieldScalar& value) {
    if (const std::string* word = std::get_if<std::string>(&value)) return *word;
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    const double number = std::get<double>(value);
    const bool is_whole = std::abs(number) < 0x1p53 && number == std::floor(number);
    return is_whole ? Json(static_cast<std::int64_t>(number)) : json_number(number);
}

/// A path as a URI reference: SARIF takes nothing else.
std::string uri_of(const std::string& path) {
    std::string uri = path.starts_with('/') ? "file://" : "";
    for (const char c : path) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              std::string_view("-._~/").find(c) != std::string_view::npos;
        uri +=
            is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
    return uri;
}

Json sarif_result(const Finding& one, std::size_t rule) {
    std::string text = one.message;
    if (!one.instead.empty()) text += fmt::format(". Instead: {}", one.instead);
    Json place{{"artifactLocation", {{"uri", uri_of(one.place.file)}}}};
    if (one.place.line > 0) {
        place["region"] = {{"startLine", one.place.line}, {"startColumn", std::max(one.place.column, 1u)}};
    }
    Json places = Json::array();
    places.push_back({{"physicalLocation", place}});
    Json result{
        {"ruleId", one.rule},
        {"ruleIndex", rule},
        {"level", to_string(severity(one))},
        {"message", {{"text", text}}},
        {"locations", places},
        {"properties", {{"code", std::string(1, static_cast<char>(one.code))}, {"keys", one.keys}}}};
    return result;
}

}  // namespace

Json field_json(const FieldValue& value) {
    if (value.parts.empty()) return scalar_json(value.value);
    Json json{{"kind", scalar_json(value.value)}};
    for (const auto& [name, part] : value.parts) json[name] = scalar_json(part);
    return json;
}

Json finding_json(const Finding& one) {
    return {{"code", std::string(1, static_cast<char>(one.code))},
            {"severity", to_string(severity(one))},
            {"file", one.place.file},
            {"line", one.place.line},
            {"column", one.place.column},
            {"key", one.key},
            {"keys", one.keys},
            {"rule", one.rule},
            {"message", one.message},
            {"instead", one.instead}};
}

Json import_json(const ImportResult& result) {
    Json fields = Json::object(), findings = Json::array();
    for (const ResolvedField* field : result.resolved.fields())
        fields[std::string(field->name)] = {{"value", field_json(field->value)}, {"from", field->from}};
    for (const Finding& one : result.findings) findings.push_back(finding_json(one));
    return {{"framework", result.framework->name},
            {"version", to_string(result.version)},
            {"resolved", fields},
            {"policy", result.policy},
            {"findings", findings}};
}

Json import_sarif(std::span<const Finding> findings) {
    std::vector<std::string> ids;
    for (const Finding& one : findings) ids.push_back(one.rule);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    Json rules = Json::array(), results = Json::array();
    for (const std::string& id : ids) rules.push_back({{"id", id}});
    for (const Finding& one : findings) {
        const auto rule = std::lower_bound(ids.begin(), ids.end(), one.rule) - ids.begin();
        results.push_back(sarif_result(one, static_cast<std::size_t>(rule)));
    }
    const Json driver{{"name", "macheps"}, {"version", version()}, {"rules", rules}};
    Json runs = Json::array();
    runs.push_back({{"tool", {{"driver", driver}}}, {"results", results}});
    return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", runs}};
}

}  // namespace macheps
