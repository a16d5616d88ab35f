// SPDX-License-Identifier: Apache-2.0
// Output of `policy import` in four forms: a table for people, JSON, SARIF for code scanning, and annotations that a
// GitHub workflow shows.
#pragma once
#include "experiments/cmd/frame/json.hpp"
#include "experiments/configs/import.hpp"

#include <span>
#include <string>

namespace macheps::cmd::policies {

/// Returns the resolved fields, then the findings, errors first.
std::string import_table(const configs::ImportResult& result);
/// Returns the findings alone, in the form in which the table prints them.
std::string finding_lines(std::span<const configs::Finding> findings);
/// Returns the number of findings of each code: "E 1, W 2, N 3".
std::string finding_counts(std::span<const configs::Finding> findings);

Json import_json(const configs::ImportResult& result);
Json field_json(const configs::FieldValue& value);

/// Returns one document for the findings of any number of configs.
Json import_sarif(std::span<const configs::Finding> findings);
/// Returns a line for each finding: `::error file=...,line=...::...`.
std::string import_annotations(std::span<const configs::Finding> findings);

}  // namespace macheps::cmd::policies
