// SPDX-License-Identifier: Apache-2.0
// Writes rows of any type as one JSON document. The keys are the names of the columns. Values that were not measured
// are null. NaN and infinities are strings.
#pragma once
#include "core/text/json.hpp"
#include "reports/rows/event.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace macheps::reports {

/// Returns a value of a row as JSON: null if the value was not measured, or a string if it is an infinity or NaN.
template <class Value>
Json json_cell(const Value& value) {
    if constexpr (std::is_same_v<Value, float>) {
        // The shortest decimal of the float has fewer digits than that of the equal double.
        if (std::isfinite(value)) return std::stod(fmt::format("{}", value));
    }
    if constexpr (std::is_floating_point_v<Value>) {
        if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    }
    return value;
}
template <class Value>
Json json_cell(const std::optional<Value>& value) {
    return value ? json_cell(*value) : Json(nullptr);
}

/// Returns a JSON array with one object per row.
template <class Row>
Json rows_of_json(std::span<const Row> rows) {
    Json list = Json::array();
    for (const Row& row : rows) {
        Json object;
        const auto put = [&](const auto& c) { object[std::string(c.name)] = json_cell(row.*c.field); };
        for_each_column<Row>(put);
        list.push_back(std::move(object));
    }
    return list;
}

/// Returns the text of {"schema": VERSION, "rows": [one object per row]}, indented and with a line end.
template <class Row>
std::string rows_json(std::span<const Row> rows) {
    const Json all{{"schema", schema_version}, {"rows", rows_of_json(rows)}};
    return all.dump(2, Json::BadUtf8::is_replaced) + '\n';
}

}  // namespace macheps::reports
