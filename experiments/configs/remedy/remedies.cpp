// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/remedy/remedies.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/unified_diff.hpp"
#include "experiments/files/config/edit.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace macheps::configs {

namespace {

bool is_same(const Finding& a, const Finding& b) {
    return a.code == b.code && a.rule == b.rule && a.message == b.message;
}

/// Returns whether the settings of a finding ended it and caused no error.
bool is_better(const ImportResult& before, const ImportResult& after, const Finding& finding) {
    const auto has = [](const ImportResult& result, const Finding& wanted) {
        return std::any_of(result.findings.begin(), result.findings.end(),
                           [&](const Finding& one) { return is_same(one, wanted); });
    };
    return !has(after, finding) && std::all_of(after.findings.begin(), after.findings.end(), [&](const Finding& one) {
        return severity(one) != FindingSeverity::error || has(before, one);
    });
}

/// Returns the settings as a patch of the only file of the config, or an empty text.
std::string patch_of(std::span<const std::string> files_and_overrides, const std::vector<Remedy>& remedies,
                     const ImportResult& result) {
    if (files_and_overrides.size() != 1 || remedies.empty()) return {};
    const std::string& path = files_and_overrides.front();
    const std::string text = read_file(path);
    std::string edited = text;
    for (const Remedy& remedy : remedies) {
        for (const Setting& setting : remedy.settings) {
            // A key of an included file is not in the tree of this file.
            if (remedy.finding.place.file != path && !result.included.empty()) return {};
            const std::optional<std::string> next =
                files::with_setting(edited, files::read_config_text(edited, path, path), setting.path, setting.value);
            if (!next) return {};
            edited = *next;
        }
    }
    return unified_diff(text, edited, path);
}

}  // namespace

bool is_grave(const Finding& finding) {
    return severity(finding) != FindingSeverity::note || finding.code == FindingCode::contradiction;
}

std::optional<ImportResult> import_with(std::span<const std::string> files_and_overrides,
                                        std::span<const Setting> settings, const ImportOptions& options) {
    std::vector<std::string> input(files_and_overrides.begin(), files_and_overrides.end());
    for (const Setting& setting : settings) input.push_back(setting.text());
    try {
        return import_config(input, options);
    } catch (const Error&) {
        return {};
    }
}

Remedies find_remedies(std::span<const std::string> files_and_overrides, const ImportOptions& options,
                       const Remedy* format) {
    ImportResult result = import_config(files_and_overrides, options);
    std::vector<std::string> input(files_and_overrides.begin(), files_and_overrides.end());
    Remedies all;
    const auto take = [&](const Remedy& remedy, ImportResult after) {
        all.remedies.push_back(remedy);
        for (const Setting& setting : remedy.settings) input.push_back(setting.text());
        result = std::move(after);
    };
    if (format != nullptr) {
        std::optional<ImportResult> after = import_with(input, format->settings, options);
        const bool is_changed = after && after->resolved.word("compute") != result.resolved.word("compute");
        if (is_changed && is_better(result, *after, format->finding)) take(*format, *std::move(after));
    }
    std::set<std::string> tried;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (const Finding& finding : result.findings) {
            if (!is_grave(finding) || !tried.insert(finding.rule + finding.message).second) continue;
            const Remedy remedy{finding, settings_of(finding)};
            if (remedy.settings.empty()) continue;
            std::optional<ImportResult> after = import_with(input, remedy.settings, options);
            if (!after || !is_better(result, *after, finding)) continue;
            take(remedy, *std::move(after));  // ends the loop over the findings
            is_changed = true;
            break;
        }
    }
    std::copy_if(result.findings.begin(), result.findings.end(), std::back_inserter(all.remaining), is_grave);
    all.patch = patch_of(files_and_overrides, all.remedies, result);
    return all;
}

}  // namespace macheps::configs
