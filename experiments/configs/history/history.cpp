// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/history/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace macheps::configs {

namespace {

constexpr std::array tables{
    &deepspeed_faults, &transformers_faults, &accelerate_faults, &trl_faults, &axolotl_and_llamafactory_faults,
    &torch_faults,     &library_faults,      &trainer_faults};

bool contains_word(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const std::size_t space = std::min(words.find(' '), words.size());
        if (words.substr(0, space) == word) return true;
        words.remove_prefix(std::min(space + 1, words.size()));
    }
    return false;
}

/// Replaces {v} with the version.
std::string with_version(std::string_view sentence, const FrameworkVersion& version) {
    std::string text(sentence);
    for (std::size_t at = text.find("{v}"); at != std::string::npos; at = text.find("{v}", at))
        text.replace(at, 3, to_string(version));
    return text;
}

/// Returns the version with which the config runs, or nothing if it is unknown and the fault is repaired in newer
/// releases. A package without a known version is assumed to be new.
std::optional<FrameworkVersion> version_with_fault(const ImportContext& context, const FaultRow& row) {
    const std::optional<FrameworkVersion> given = context.given_version(row.package);
    if (given) return has_fault(row, *given) ? given : std::nullopt;
    const Framework* framework = find_framework(row.package);
    if (framework == nullptr && (row.holds == nullptr || !row.first_good.empty())) return {};
    const FrameworkVersion newest = parse_version(framework == nullptr ? row.newest_seen : framework->newest);
    return has_fault(row, newest) ? std::optional(newest) : std::nullopt;
}

}  // namespace

std::string_view to_string(FaultEvidence evidence) {
    constexpr std::array<std::string_view, 3> words{"run", "read", "thread"};
    return words[static_cast<std::size_t>(evidence)];
}

std::vector<const FaultRow*> fault_rows() {
    std::vector<const FaultRow*> rows;
    for (const auto table : tables) {
        for (const FaultRow& row : table()) rows.push_back(&row);
    }
    return rows;
}

const FaultRow* find_fault(std::string_view id) {
    const std::vector<const FaultRow*> rows = fault_rows();
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const FaultRow* row) { return row->id == id; });
    return found == rows.end() ? nullptr : *found;
}

bool has_fault(const FaultRow& row, FrameworkVersion version) {
    if (!row.first_bad.empty() && version < parse_version(row.first_bad)) return false;
    return row.first_good.empty() || version < parse_version(row.first_good);
}

void report_history(ImportContext& context) {
    const std::string_view importer = context.framework().name;
    for (const FaultRow* row : fault_rows()) {
        const std::string_view importers = row->importers.empty() ? row->package : row->importers;
        if (row->holds != nullptr && !contains_word(importers, importer)) continue;
        if (row->holds == nullptr && context.shared_by() != nullptr) continue;  // reported once, for the whole config
        const std::optional<FrameworkVersion> version = version_with_fault(context, *row);
        if (!version || (row->holds != nullptr && !row->holds(context))) continue;
        const bool is_question = !row->question.empty() || row->holds == nullptr;
        const auto& despite = context.options().despite;
        const bool is_accepted = std::find(despite.begin(), despite.end(), row->id) != despite.end();
        FindingCode code = row->code;
        if ((is_question || is_accepted) && code == FindingCode::error) code = FindingCode::warning;
        const std::string_view condition =
            row->question.empty() && row->holds == nullptr ? row->trigger : row->question;
        std::string message = with_version(row->sentence, *version);
        if (!condition.empty()) message = fmt::format("if {}: {}", condition, message);
        Finding& finding = context.report(code, row->id, row->keys, std::move(message), std::string(row->remedy));
        finding.fault = row->id;
        if (!is_question && code != FindingCode::note)
            finding.not_emulated = fmt::format("the fault {} is not emulated", row->id);
    }
}

}  // namespace macheps::configs
