// SPDX-License-Identifier: Apache-2.0
#include "core/profile.hpp"

#include "core/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps {

Profile profile_named(std::string_view name, std::string_view where, Exit exit) {
    std::vector<std::string_view> names;
    for (const auto& row : all_profiles) {
        if (row.name == name) return row.profile;
        names.push_back(row.name);
    }
    const std::string near = nearest_name(name, names);
    throw Error(
        {.what = fmt::format("unknown codec profile '{}'", name),
         .where = std::string(where),
         .fix = near.empty() ? fmt::format("one of {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near),
         .exit = exit});
}

}  // namespace macheps
