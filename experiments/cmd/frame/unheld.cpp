// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/unheld.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/print.hpp"
#include "experiments/cmd/frame/eprint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps::cmd {

void add_refuse_option(Command& verb, std::vector<std::string>& names) {
    verb.option(
            "--refuse", names,
            "Fail (exit code 3) at an element with one of these properties if the target format cannot represent it. "
            "Default: convert such elements, and count them in a note on stderr")
        .takes("PROPERTY:{nan,inf,sign,zero,negative_zero,all}")
        .list();
}

PropertySet refused_properties(const std::vector<std::string>& names) {
    std::vector<std::string_view> known{"all"};
    for (const PropertyName& row : property_names) known.push_back(row.name);
    PropertySet properties;
    for (const std::string& name : names) {
        bool found = false;
        for (const PropertyName& row : property_names) {
            if (name != "all" && name != row.name) continue;
            properties.add(row.value);
            found = true;
        }
        if (found) continue;
        const std::string near = nearest_name(name, known);
        throw Error({.what = fmt::format("unknown property '{}'", name),
                     .where = "--refuse",
                     .fix = near.empty() ? fmt::format("use one of {}", fmt::join(known, ", "))
                                         : fmt::format("did you mean {}?", near),
                     .exit = Exit::usage});
    }
    return properties;
}

void UnheldCounts::count(PropertySet properties, double x, std::uint64_t i, std::uint64_t code) {
    for (std::size_t p = 0; p < property_names.size(); ++p) {
        const PropertyName& row = property_names[p];
        if (!properties.contains(row.value)) continue;
        if (refused_.contains(row.value)) {
            throw Error(
                {.what = fmt::format("element {} is {}, but {} has no {}", i, decimal(x), format_name(to_), row.noun),
                 .where = "--refuse",
                 .fix = fmt::format("remove such elements, or leave out --refuse {} to convert them", row.name)});
        }
        Found& found = found_[p];
        if (found.count++ == 0) found = {.count = 1, .first = i, .code = code, .x = x};
    }
}

void UnheldCounts::tell_notes() const {
    for (std::size_t p = 0; p < property_names.size(); ++p) {
        const Found& found = found_[p];
        if (found.count == 0) continue;
        // If the format has no zero at all, the note about zeros also counts -0.
        if (property_names[p].value == Property::negative_zero && !can_hold(to_, Property::zero)) continue;
        eprint("note: {} has no {}: {} {}, the first at {}: {} became {} ({})\n", format_name(to_),
               property_names[p].noun, found.count, found.count == 1 ? "element" : "elements", found.first,
               decimal(found.x), decimal(decode64(to_, found.code)), hex_code(to_, found.code));
    }
}

}  // namespace macheps::cmd
