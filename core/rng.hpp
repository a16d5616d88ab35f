// SPDX-License-Identifier: Apache-2.0
// The random number generator Philox4x32-10. It has no state and maps a key and a counter to 128 random bits. Source:
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The tests use the known answers
// of Random123.
#pragma once
#include "core/hd.hpp"

#include <string_view>

namespace macheps {

struct PhiloxBlock {
    std::uint32_t word[4];
};

MACHEPS_HD constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
    PhiloxBlock x = counter;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = std::uint64_t{0xd2511f53u} * x.word[0];
        const std::uint64_t product1 = std::uint64_t{0xcd9e8d57u} * x.word[2];
        x = {{static_cast<std::uint32_t>(product1 >> 32) ^ x.word[1] ^ key0, static_cast<std::uint32_t>(product1),
              static_cast<std::uint32_t>(product0 >> 32) ^ x.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return x;
}

/// Identifies one stream of random bits by the seed of a run, an optimiser step, and the site (a named place in the
/// model) that draws the bits.
struct RngKey {
    std::uint64_t seed = 0;
    std::uint32_t step = 0;
    std::uint32_t site = 0;

    constexpr bool operator==(const RngKey&) const = default;
    /// Returns a key that identifies no stream and means "not set". No run has this seed.
    MACHEPS_HD static constexpr RngKey none() { return {~std::uint64_t{0}, ~std::uint32_t{0}, ~std::uint32_t{0}}; }
};

/// Returns block `block` of a stream. The words of the Philox counter are (block low, block high, step, site).
MACHEPS_HD constexpr PhiloxBlock random_block(RngKey key, std::uint64_t block) {
    return philox4x32_10(
        {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), key.step, key.site}},
        static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32));
}

/// Returns the 32 random bits of an element. They are word `element & 3` of block `element >> 2`.
MACHEPS_HD constexpr std::uint32_t random_bits(RngKey key, std::uint64_t element) {
    return random_block(key, element >> 2).word[element & 3];
}

/// Returns a 32-bit id of a site's name (FNV-1a). It is the same in every version and on every machine.
constexpr std::uint32_t site_id(std::string_view name) {
    std::uint32_t hash = 0x811c9dc5u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
    return hash;
}

}  // namespace macheps
