// SPDX-License-Identifier: Apache-2.0
#include "core/host/version.hpp"
#include "experiments/cmd/policy/import_output.hpp"
#include "experiments/configs/framework.hpp"
#include "reports/ci/sarif.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace macheps::cmd::policies {

using namespace reports;

using namespace configs;

namespace {

Json scalar_json(const FieldScalar& value) {
    if (const std::string* word = std::get_if<std::string>(&value)) return *word;
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    const double number = std::get<double>(value);
    const bool is_whole = std::abs(number) < 0x1p53 && number == std::floor(number);
    return is_whole ? Json(static_cast<std::int64_t>(number)) : json_number(number);
}

}  // namespace

Json field_json(const FieldValue& value) {
    if (value.parts.empty()) return scalar_json(value.value);
    Json json{{"kind", scalar_json(value.value)}};
    for (const auto& [name, part] : value.parts) json[name] = scalar_json(part);
    return json;
}

Json import_json(const ImportResult& result) {
    Json fields = Json::object(), findings = Json::array();
    for (const ResolvedField* field : result.resolved.fields())
        fields[std::string(field->name)] = {{"value", field_json(field->value)}, {"from", field->from}};
    for (const Finding& one : result.findings) findings.push_back(finding_json(one));
    Json json{{"framework", result.framework->name},
              {"version", to_string(result.version)},
              {"resolved", fields},
              {"policy", result.policy},
              {"findings", findings}};
    if (result.unknown_version) json["unknown_version"] = to_string(*result.unknown_version);
    return json;
}

Json import_sarif(std::span<const Finding> findings) {
    std::vector<SarifResult> results;
    for (const Finding& one : findings) {
        SarifResult result{.rule = one.rule, .level = std::string(to_string(severity(one))), .text = one.message};
        if (!one.instead.empty()) result.text += fmt::format(". Instead: {}", one.instead);
        result.file = one.place.file;
        result.line = one.place.line;
        result.column = one.place.column;
        result.properties = {{"code", std::string(1, static_cast<char>(one.code))}, {"keys", one.keys}};
        results.push_back(std::move(result));
    }
    return sarif_document(macheps::version(), results);
}

}  // namespace macheps::cmd::policies
