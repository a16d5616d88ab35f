// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/rounding_option.hpp"

#include "core/error.hpp"
#include "core/rounding_names.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace macheps::cmd {

Round round_named(const std::string& name) {
    std::vector<std::string_view> names;
    for (const RoundName& row : round_names) {
        if (lowered(name) == row.name || lowered(name) == row.acronym) return row.value;
        names.push_back(row.name);
    }
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("unknown rounding mode '{}'", name),
                 .where = "--round",
                 .fix = near.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean {}?", near),
                 .exit = Exit::usage});
}

}  // namespace macheps::cmd
