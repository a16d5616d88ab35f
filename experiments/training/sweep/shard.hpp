// SPDX-License-Identifier: Apache-2.0
// Assignment of units to shards. Shard i of n is given by the user, or by an engine in environment variables.
#pragma once
#include "experiments/training/sweep/sweep.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

struct Shard {
    int index = 0, count = 1;

    bool operator==(const Shard&) const = default;
};

inline constexpr int max_shards = 1000000;

/// Reads `3/64`. Throws Error, Exit::usage.
Shard parse_shard(std::string_view text);
std::string to_string(Shard shard);

struct FoundShard {
    Shard shard{};
    std::string engine{};  ///< `Slurm array`
    std::string seen{};    ///< the variables that it was read from, and their values
};

/// A function that looks up an environment variable; it returns nullptr if there is none.
using GetVariable = std::function<const char*(const char* name)>;

/// Returns the shard that the engine which started this process gives in the environment. Errors: throws Error,
/// Exit::usage, with the variables that were found, if no engine gives a shard, if two engines disagree, or if one
/// gives only half of it.
FoundShard shard_in(const GetVariable& variable);

/// Returns the indices of the shard's units, the longest first. Units are sorted by cost, ties by name, and dealt to
/// the shards in alternating directions. Every process that reads the same sweep.json gets the same result.
std::vector<std::size_t> units_of(const Sweep& sweep, Shard shard);
/// Returns the units of each of `count` shards.
std::vector<std::vector<std::size_t>> units_of_shards(const Sweep& sweep, int count);

}  // namespace macheps::training
