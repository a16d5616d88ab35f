// SPDX-License-Identifier: Apache-2.0
// Tables of the findings that importers can report. The table of a framework has one row for each setting that the
// framework refuses, warns about or decides silently. Each row has a small function that decides from the config
// whether to report the finding.
#pragma once
#include "experiments/configs/framework.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace macheps::configs {

/// The texts of a finding.
struct FindingText {
    std::string message;         ///< what happens
    std::string instead;         ///< what to write instead
    std::size_t key = 0;         ///< index, in the row's keys, of the key to change
    std::string not_emulated{};  ///< Finding::not_emulated
};

/// A row of the table. `Facts` is a struct of values that the importer has derived from the config once, so that the
/// rows do not derive them again.
template <class Facts>
struct FindingRow {
    std::string_view id;  ///< without the framework's name: "initial-scale-trap"
    FindingCode code = FindingCode::note;
    std::initializer_list<std::string_view> keys;  ///< keys that the condition reads; the user should change the
                                                   ///< first key, unless FindingText::key selects another
    std::optional<FindingText> (*said)(const ImportContext&, const Facts&) = nullptr;
};

template <class Facts>
void report_rows(ImportContext& context, const Facts& facts, std::span<const FindingRow<Facts>> rows) {
    for (const FindingRow<Facts>& row : rows) {
        std::optional<FindingText> said = row.said(context, facts);
        if (!said) continue;
        Finding& finding =
            context.report(row.code, row.id, row.keys, std::move(said->message), std::move(said->instead));
        finding.not_emulated = std::move(said->not_emulated);
        if (said->key == 0) continue;
        finding.key = finding.keys[said->key];
        finding.place = context.place_of(row.keys.begin()[said->key]);
    }
}

}  // namespace macheps::configs
