// SPDX-License-Identifier: Apache-2.0
// `macheps convert IN.npy --granularity G`: an array to codes and the scales of its groups.
#pragma once
#include "core/property.hpp"
#include "experiments/cmd/command.hpp"

#include <cstdint>
#include <string>

namespace macheps::cmd::convert {

/// What the command line says of scales.
struct ScaledConversion {
    std::string input, output, granularity, scale_rule;
    std::int64_t axis = 1;

    void add_options(Command& verb);
    /// True where the command line asks for scales.
    bool is_asked(const Command& verb) const;
    /// Errors: throws Error; usage for options that only a conversion without scales reads.
    Exit run(const Command& verb, const Format& to, Round round, std::uint64_t seed, PropertySet refused) const;
};

}  // namespace macheps::cmd::convert
