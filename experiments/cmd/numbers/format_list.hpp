// SPDX-License-Identifier: Apache-2.0
// The formats that a verb shows, chosen by an option --format.
#pragma once
#include "core/format_table.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd {

/// Returns the named formats with their canonical names, or all formats if no name is given. Throws Error (usage) for an
/// unknown name.
inline std::vector<std::pair<std::string_view, Format>> listed_formats(const std::vector<std::string>& names) {
    std::vector<std::pair<std::string_view, Format>> formats;
    for (const std::string& name : names) {
        const Format format = format_named(name, "--format", Exit::usage);
        formats.emplace_back(format_name(format), format);
    }
    if (formats.empty()) {
        for (const NamedFormat& row : all_formats) formats.emplace_back(row.name, row.format);
    }
    return formats;
}

}  // namespace macheps::cmd
