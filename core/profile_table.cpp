// SPDX-License-Identifier: Apache-2.0
#include "core/profile_table.hpp"

#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace macheps {

namespace {

// A name whose meaning depends on the edition of ONNX. Such a name is rejected, and the error lists the editions.
struct Undated {
    std::string_view name, stem;  ///< `stem` is the common prefix of the profiles that may be meant
};
constexpr Undated undated_names[] = {
    {"onnx", "onnx."},
    {"onnx_saturate", "onnx."},
    {"onnx_sat", "onnx."},
    {"onnx_nosat", "onnx."},
    {"onnx_reference", "onnx_reference."},
};

bool is_called(const NamedProfile& row, std::string_view name) {
    if (row.name == name) return true;
    const std::vector<std::string_view> aliases = split_names(row.aliases);
    return std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

}  // namespace

const NamedProfile& profile_row(std::string_view name, std::string_view where, Exit exit) {
    std::vector<std::string_view> names;
    for (const NamedProfile& row : all_profiles) {
        if (is_called(row, name)) return row;
        names.push_back(row.name);
    }
    for (const Undated& undated : undated_names) {
        if (undated.name != name) continue;
        std::erase_if(names, [&](std::string_view each) { return !each.starts_with(undated.stem); });
        throw Error({.what = fmt::format("codec profile '{}' is ambiguous: its editions convert differently", name),
                     .where = std::string(where),
                     .fix = fmt::format("choose an edition: {}", fmt::join(names, ", ")),
                     .exit = exit});
    }
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("unknown codec profile '{}'", name),
                 .where = std::string(where),
                 .fix = near.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean {}?", near),
                 .exit = exit});
}

Profile profile_named(std::string_view name, std::string_view where, Exit exit) {
    return profile_row(name, where, exit).profile;
}

bool has_format(const NamedProfile& row, const Format& f) {
    if (row.formats.empty()) return true;
    const std::vector<std::string_view> names = split_names(row.formats);
    return std::find(names.begin(), names.end(), format_name(f)) != names.end();
}

void require_format(const NamedProfile& row, const Format& f, std::string_view where, Exit exit) {
    if (has_format(row, f)) return;
    std::vector<std::string_view> others;
    for (const NamedProfile& other : all_profiles) {
        if (has_format(other, f)) others.push_back(other.name);
    }
    throw Error({.what = fmt::format("profile {} does not convert to {}", row.name, format_name(f)),
                 .where = std::string(where),
                 .fix = fmt::format("use one of {}", fmt::join(others, ", ")),
                 .exit = exit});
}

}  // namespace macheps
