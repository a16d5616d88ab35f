// SPDX-License-Identifier: Apache-2.0
// Random numbers for generated inputs.
#pragma once
#include "core/rng.hpp"

#include <cstdint>
#include <string_view>

namespace macheps::check {

/// Random numbers for one array of one recipe, indexed by element. They are the same on every machine.
class Draws {
  public:
    Draws(std::uint64_t seed, std::string_view recipe, std::string_view array);

    double uniform(std::int64_t i) const;  ///< in (0, 1)
    double normal(std::int64_t i) const;   ///< mean 0, deviation 1
    std::int64_t whole(std::int64_t i, std::int64_t least, std::int64_t greatest) const;
    /// Returns a whole number whose magnitude is in [least, greatest], with either sign.
    std::int64_t signed_whole(std::int64_t i, std::int64_t least, std::int64_t greatest) const;

  private:
    RngKey key_;
};

}  // namespace macheps::check
