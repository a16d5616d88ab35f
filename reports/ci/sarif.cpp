// SPDX-License-Identifier: Apache-2.0
#include "reports/ci/sarif.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace macheps::reports {

namespace {

/// Returns a path as a URI reference, as SARIF requires.
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

Json result_json(const SarifResult& one, std::size_t rule) {
    Json places = Json::array();
    if (!one.file.empty()) {
        Json place{{"artifactLocation", {{"uri", uri_of(one.file)}}}};
        if (one.line > 0) place["region"] = {{"startLine", one.line}, {"startColumn", std::max(one.column, 1u)}};
        places.push_back({{"physicalLocation", place}});
    }
    Json result{{"ruleId", one.rule},
                {"ruleIndex", rule},
                {"level", one.level},
                {"message", {{"text", one.text}}},
                {"locations", places}};
    if (!one.fingerprints.empty()) result["partialFingerprints"] = one.fingerprints;
    if (!one.properties.empty()) result["properties"] = one.properties;
    return result;
}

}  // namespace

Json sarif_document(std::string_view program_version, std::span<const SarifResult> results,
                    const std::map<std::string, std::string>& sentences) {
    std::vector<std::string> ids;
    for (const SarifResult& one : results) ids.push_back(one.rule);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    Json rules = Json::array(), list = Json::array();
    for (const std::string& id : ids) {
        Json rule{{"id", id}};
        if (const auto sentence = sentences.find(id); sentence != sentences.end())
            rule["shortDescription"] = {{"text", sentence->second}};
        rules.push_back(rule);
    }
    for (const SarifResult& one : results) {
        const auto rule = std::lower_bound(ids.begin(), ids.end(), one.rule) - ids.begin();
        list.push_back(result_json(one, static_cast<std::size_t>(rule)));
    }
    const Json driver{{"name", "macheps"}, {"version", program_version}, {"rules", rules}};
    Json runs = Json::array();
    runs.push_back({{"tool", {{"driver", driver}}}, {"results", list}});
    return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", runs}};
}

}  // namespace macheps::reports
