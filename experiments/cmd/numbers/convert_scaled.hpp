// SPDX-License-Identifier: Apache-2.0
// `macheps convert IN.npy --granularity G`: converts an array to codes and the scales of its groups.
#pragma once
#include "core/property.hpp"
#include "experiments/cmd/command.hpp"

#include <cstdint>
#include <string>

namespace macheps::cmd::convert {

/// Options of a conversion to codes and scales.
struct ScaledConversion {
    std::string input, output, granularity, scale_rule;
    std::int64_t axis = 1;

    void add_options(Command& verb);
    /// Returns whether the command line has an option of a conversion to codes and scales.
    bool is_asked(const Command& verb) const;
    /// Converts the array and writes the file. Errors: throws Error (usage) for options that only a conversion without
    /// scales uses.
    Exit run(const Command& verb, const Format& to, Round round, std::uint64_t seed, PropertySet refused) const;
};

}  // namespace macheps::cmd::convert
