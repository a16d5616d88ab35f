// SPDX-License-Identifier: Apache-2.0
// Reports the properties that a conversion loses because the target format cannot hold them. Notes on stderr count the
// elements. With the option --refuse, the conversion fails instead.
#pragma once
#include "core/property.hpp"
#include "experiments/cmd/frame/cli.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::cmd {

/// Adds the option `--refuse` to a verb. Its values are names of properties, or `all`. They are stored in `names`.
void add_refuse_option(Command& verb, std::vector<std::string>& names);

/// Returns the properties with these names. Throws Error (usage) for any other name.
PropertySet refused_properties(const std::vector<std::string>& names);

/// Counts the elements whose properties a format cannot hold, in the order in which they are converted.
class UnheldCounts {
  public:
    UnheldCounts(const Format& to, PropertySet refused) : to_(to), refused_(refused) {}

    /// Counts element `i`, which became `code`. Throws Error if the element has a property that is refused.
    void observe(double x, std::uint64_t i, std::uint64_t code) {
        const PropertySet properties = unheld(to_, unpack(x));
        if (!properties.empty()) count(properties, x, i, code);
    }
    /// Writes a note for each lost property: the number of elements, and the first of them.
    void tell_notes() const;

  private:
    struct Found {
        std::uint64_t count = 0, first = 0, code = 0;
        double x = 0;
    };
    void count(PropertySet properties, double x, std::uint64_t i, std::uint64_t code);

    Format to_;
    PropertySet refused_;
    std::array<Found, property_names.size()> found_{};
};

}  // namespace macheps::cmd
