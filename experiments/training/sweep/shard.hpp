// SPDX-License-Identifier: Apache-2.0
// Assignment of units to shards. The user specifies shard i of n, or an engine (a scheduler) specifies it in
// environment variables.
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

/// Parses a shard such as `3/64`. Throws Error, Exit::usage, if the text is not valid.
Shard parse_shard(std::string_view text);
std::string to_string(Shard shard);

struct FoundShard {
    Shard shard{};
    std::string engine{};  ///< `Slurm array`
    std::string seen{};    ///< the variables from which the shard was read, and their values
};

/// A function that looks up an environment variable; it returns nullptr if there is none.
using GetVariable = std::function<const char*(const char* name)>;

/// Returns the shard of this process, as specified in environment variables by the engine that started it. Errors:
/// throws Error, Exit::usage, if no engine specifies a shard, if two engines disagree, or if the variables of an engine
/// are incomplete or contradictory. The error lists the variables that were found.
FoundShard shard_in(const GetVariable& variable);

/// Returns the indices of the shard's units, the longest first. All units are sorted by cost (ties by name) and dealt
/// to the shards in rounds: from the first shard to the last, then from the last to the first. Every process that reads
/// the same sweep.json gets the same result.
std::vector<std::size_t> units_of(const Sweep& sweep, Shard shard);
/// Returns the units of each of `count` shards.
std::vector<std::vector<std::size_t>> units_of_shards(const Sweep& sweep, int count);

}  // namespace macheps::training
