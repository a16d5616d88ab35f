// SPDX-License-Identifier: Apache-2.0
// Output of `policy import` in four forms: a table for people, JSON, SARIF for code scanning, and annotations that a
// GitHub workflow shows.
#pragma once
#include "experiments/cmd/frame/json.hpp"
#include "experiments/configs/import.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace macheps::cmd::policies {

/// How keys are listed that affect no format, rounding or scale.
enum class InertKeys : std::uint8_t {
    in_one_line,  ///< together, at most five by name
    each,         ///< each with its place
};

/// Returns the findings, gravest first, then the resolved fields.
std::string import_table(const configs::ImportResult& result, InertKeys inert_keys);
/// Returns the findings alone, in the form in which the table prints them.
std::string finding_lines(std::span<const configs::Finding> findings, InertKeys inert_keys = InertKeys::in_one_line);
/// Returns the number of findings of each code: "E 1, W 2, N 3".
std::string finding_counts(std::span<const configs::Finding> findings);

Json import_json(const configs::ImportResult& result);
Json field_json(const configs::FieldValue& value);

/// Returns one document for the findings of any number of configs.
Json import_sarif(std::span<const configs::Finding> findings);
/// Returns a line for each finding: `::error file=...,line=...::...`.
std::string import_annotations(std::span<const configs::Finding> findings);

}  // namespace macheps::cmd::policies
