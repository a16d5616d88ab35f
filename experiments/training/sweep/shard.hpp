// SPDX-License-Identifier: Apache-2.0
// Which units are whose: shard i of n, as it is given or as an engine tells it in the environment.
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

inline constexpr int most_shards = 1000000;

/// `3/64`. Throws Error, Exit::usage.
Shard parse_shard(std::string_view text);
std::string to_string(Shard shard);

struct FoundShard {
    Shard shard{};
    std::string engine{};  ///< `Slurm array`
    std::string seen{};    ///< the variables that it was read from, and their values
};

/// Looks a variable of the environment up; nullptr where there is none.
using GetVariable = std::function<const char*(const char* name)>;

/// What the engine that started this process says in the environment. Errors: throws Error, Exit::usage, with the
/// variables that are there, where none says it, two disagree, or one tells half of it.
FoundShard shard_in(const GetVariable& variable);

/// Indices of the shard's units, the longest first. Units are sorted by cost, ties by name, and dealt out to and fro; every
/// process that reads the same sweep.json comes to the same.
std::vector<std::size_t> units_of(const Sweep& sweep, Shard shard);
/// The units of each of `count` shards.
std::vector<std::vector<std::size_t>> units_of_shards(const Sweep& sweep, int count);

}  // namespace macheps::training
