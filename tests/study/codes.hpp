// SPDX-License-Identifier: Apache-2.0
// Checksums of matrices: FNV-1a over the little-endian bytes of the numbers, or of their codes in a format.
#pragma once
#include "core/codec.hpp"

#include <bit>
#include <cstdint>
#include <vector>

namespace macheps::test {

inline std::uint64_t add_bytes(std::uint64_t hash, std::uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; ++i) hash = (hash ^ ((bits >> (8 * i)) & 0xff)) * 0x100000001b3ull;
    return hash;
}
inline constexpr std::uint64_t first_hash = 0xcbf29ce484222325ull;

inline std::uint64_t hash_of(const std::vector<double>& values) {
    std::uint64_t hash = first_hash;
    for (const double x : values) hash = add_bytes(hash, std::bit_cast<std::uint64_t>(x), 8);
    return hash;
}

inline std::uint64_t hash_of_codes(const Format& f, const std::vector<double>& values) {
    std::uint64_t hash = first_hash;
    for (const double x : values) {
        hash = add_bytes(hash, encode64(f, x, Round::nearest_even, Overflow::nonsaturate), f.container_bits() / 8);
    }
    return hash;
}

}  // namespace macheps::test
