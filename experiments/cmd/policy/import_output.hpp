// SPDX-License-Identifier: Apache-2.0
// What `policy import` prints: a table for people, JSON, SARIF for code scanning, annotations of a workflow.
#pragma once
#include "experiments/cmd/frame/json.hpp"
#include "experiments/configs/import.hpp"

#include <span>
#include <string>

namespace macheps::cmd::policies {

/// The resolved fields, then the findings, errors first.
std::string import_table(const configs::ImportResult& result);
/// The findings alone, as the table has them.
std::string finding_lines(std::span<const configs::Finding> findings);
/// "E 1, W 2, N 3": how many findings there are of each code.
std::string finding_counts(std::span<const configs::Finding> findings);

/// A field's value in words: "bf16", "torch init_scale 65536 growth_factor 2".

Json import_json(const configs::ImportResult& result);
Json finding_json(const configs::Finding& finding);
Json field_json(const configs::FieldValue& value);

/// One document for the findings of any number of configs.
Json import_sarif(std::span<const configs::Finding> findings);
/// A line for each finding: `::error file=...,line=...::...`.
std::string import_annotations(std::span<const configs::Finding> findings);

}  // namespace macheps::cmd::policies
