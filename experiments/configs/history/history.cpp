// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/history/predicates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace macheps::configs {

namespace {

constexpr std::array tables{
    &deepspeed_faults, &deepspeed_scaler_faults,         &transformers_faults, &accelerate_faults,
    &trl_faults,       &axolotl_and_llamafactory_faults, &torch_faults,        &library_faults,
    &trainer_faults};

/// Replaces {v} with the version.
std::string with_version(std::string_view sentence, const FrameworkVersion& version) {
    std::string text(sentence);
    for (std::size_t at = text.find("{v}"); at != std::string::npos; at = text.find("{v}", at))
        text.replace(at, 3, to_string(version));
    return text;
}

/// Returns the version with which the config runs, if this version has the fault. If the version of a framework is
/// unknown, the newest known or allowed one is assumed. If the version of another package is unknown, all repaired
/// faults are assumed to be repaired.
std::optional<FrameworkVersion> version_with_fault(const ImportContext& context, const FaultRow& row) {
    std::optional<FrameworkVersion> version = context.assumed_version(row.package);
    if (!version && row.first_good.empty()) version = parse_version(row.newest_seen);
    return version && has_fault(row, *version) ? version : std::nullopt;
}

/// Returns the release that the sentence of a row names. For a row without an end, it is not known whether versions
/// beyond all known releases have the fault, so the sentence then names the nearest known release with the fault.
FrameworkVersion named_release(const FaultRow& row, const FrameworkVersion& version) {
    const std::optional<KnownReleases> known = known_releases(row.package);
    if (row.first_good.empty()) {
        FrameworkVersion newest = parse_version(row.newest_seen);
        if (known) newest = std::max(newest, parse_version(known->newest));
        if (version > newest) return newest;
    }
    if (row.first_bad.empty() && known) {
        const FrameworkVersion oldest = parse_version(known->oldest);
        if (version < oldest && has_fault(row, oldest)) return oldest;
    }
    return version;
}

/// Returns a condition that the config leaves open, or an empty text.
std::string_view open_condition(const ImportContext& context, const FaultRow& row) {
    return row.asks == nullptr ? row.question : row.asks(context);
}

std::string not_emulated_text(const FaultRow& row) { return fmt::format("the fault {} is not emulated", row.id); }

/// Reports the fault of a row. If a finding already reports the same fact, the more severe of the two is kept. Such a
/// finding comes from a rule of the importer, or from an importer to which a part of the config was delegated.
void report_fault(ImportContext& context, const FaultRow& row, const FrameworkVersion& version) {
    const std::string_view condition = open_condition(context, row);
    const bool is_certain = condition.empty();
    const std::vector<std::string>& despite = context.options().despite;
    const bool is_accepted = std::find(despite.begin(), despite.end(), row.id) != despite.end();
    const bool is_warning = row.code == FindingCode::error && (!is_certain || is_accepted);
    Finding fault;
    fault.code = is_warning ? FindingCode::warning : row.code;
    std::vector<Finding>& findings = context.findings();
    const auto reports_same = [&](const Finding& one) {
        return one.fault == row.id || history::is_one_of(one.rule, row.finding);
    };
    const auto suffices = [&](const Finding& one) { return reports_same(one) && severity(one) <= severity(fault); };
    if (const auto own = std::find_if(findings.begin(), findings.end(), suffices); own != findings.end()) {
        own->fault = row.id;
        if (is_accepted && own->code == FindingCode::error) {
            own->code = FindingCode::warning;
            if (own->not_emulated.empty()) own->not_emulated = not_emulated_text(row);
        }
        return;
    }
    const auto same = std::find_if(findings.begin(), findings.end(), reports_same);
    const std::optional<Finding> replaced = same == findings.end() ? std::nullopt : std::optional(*same);
    std::erase_if(findings, reports_same);
    std::string message = with_version(row.sentence, named_release(row, version));
    if (!is_certain) message = fmt::format("if {}: {}", condition, message);
    Finding& finding = context.report(fault.code, row.id, row.keys, std::move(message), std::string(row.remedy));
    // If the config does not have the key of the row, the importer may have found the fault at another key.
    if (replaced && row.keys.size() > 0 && !context.has(*row.keys.begin())) {
        finding.key = replaced->key;
        finding.keys = replaced->keys;
        finding.place = replaced->place;
    }
    finding.fault = row.id;
    context.known_version(row.package);  // report_assumed() names the version
    if (is_certain && fault.code != FindingCode::note) finding.not_emulated = not_emulated_text(row);
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

std::vector<std::string_view> fault_packages() {
    std::vector<std::string_view> names;
    for (const FaultRow* row : fault_rows()) {
        if (std::find(names.begin(), names.end(), row->package) == names.end()) names.push_back(row->package);
    }
    return names;
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

std::string_view importers_of(const FaultRow& row) { return row.importers.empty() ? row.package : row.importers; }

void report_history(ImportContext& context) {
    for (const FaultRow* row : fault_rows()) {
        if (row->holds == nullptr || !history::is_one_of(context.framework().name, importers_of(*row))) continue;
        const std::optional<FrameworkVersion> version = version_with_fault(context, *row);
        if (row->needs_loss_arguments && history::takes_no_loss_arguments(context)) continue;
        if (version && row->holds(context)) report_fault(context, *row, *version);
    }
}

void report_faults_of_named_versions(ImportContext& context) {
    for (const FaultRow* row : fault_rows()) {
        if (row->holds != nullptr || !context.given_version(row->package)) continue;
        if (const std::optional<FrameworkVersion> version = version_with_fault(context, *row))
            report_fault(context, *row, *version);
    }
}

}  // namespace macheps::configs
