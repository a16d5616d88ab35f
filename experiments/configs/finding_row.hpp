// SPDX-License-Identifier: Apache-2.0
// A framework's findings as a table: a row for each thing that it refuses, warns about or decides silently, with the
// condition as a small function over what the framework has made of the config.
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

/// The two texts of a finding.
struct Said {
    std::string message;  ///< what happens
    std::string instead;  ///< what to write instead
    std::size_t key = 0;  ///< which of the row's keys is the one to change
};

/// `Facts` is what the framework's resolve() has derived, so that no condition derives it again.
template <class Facts>
struct FindingRow {
    std::string_view id;  ///< without the framework's name: "initial-scale-trap"
    FindingCode code = FindingCode::note;
    std::initializer_list<std::string_view> keys;  ///< read by the condition; the first one is the one to change,
                                                   ///< unless what is said names another
    std::optional<Said> (*said)(const ImportContext&, const Facts&) = nullptr;
};

template <class Facts>
void report_rows(ImportContext& context, const Facts& facts, std::span<const FindingRow<Facts>> rows) {
    for (const FindingRow<Facts>& row : rows) {
        std::optional<Said> said = row.said(context, facts);
        if (!said) continue;
        Finding& finding =
            context.report(row.code, row.id, row.keys, std::move(said->message), std::move(said->instead));
        if (said->key == 0) continue;
        finding.key = finding.keys[said->key];
        finding.place = context.place_of(row.keys.begin()[said->key]);
    }
}

}  // namespace macheps::configs
