// SPDX-License-Identifier: Apache-2.0
// Checksum: XXH64 with seed 0, as printed by `xxhsum -H1`. It detects damage, not manipulation.
// Source: github.com/Cyan4973/xxHash doc/xxhash_spec.md, "XXH64 Algorithm Description".
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace macheps::reports {

/// Computes the checksum of bytes that are added in pieces. The result does not depend on the sizes of the pieces.
class Checksum {
  public:
    void update(std::string_view bytes);
    /// Returns the checksum of all bytes so far. More bytes may be added afterwards.
    std::uint64_t value() const;
    std::uint64_t bytes() const { return bytes_; }

  private:
    static constexpr std::size_t stripe = 32;
    void consume(const char* at);

    std::array<std::uint64_t, 4> lanes_{0x60ea27eeadc0b5d6u, 0xc2b2ae3d27d4eb4fu, 0u, 0x61c8864e7a143579u};
    std::array<char, stripe> rest_{};  ///< incomplete stripe; its first bytes_ % stripe bytes are used
    std::uint64_t bytes_ = 0;
};

inline std::uint64_t checksum_of(std::string_view bytes) {
    Checksum sum;
    sum.update(bytes);
    return sum.value();
}

/// Returns sixteen hexadecimal digits.
std::string to_hex(std::uint64_t value);

}  // namespace macheps::reports
