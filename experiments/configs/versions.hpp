// SPDX-License-Identifier: Apache-2.0
// Versions of frameworks, compared by their numbers: "0.16.5" < "0.17.1" < "5".
#pragma once
#include <array>
#include <compare>
#include <string>
#include <string_view>

namespace macheps::configs {

struct FrameworkVersion {
    std::array<int, 3> numbers{};
    bool operator==(const FrameworkVersion&) const = default;
    std::strong_ordering operator<=>(const FrameworkVersion& other) const {
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            if (const auto order = numbers[i] <=> other.numbers[i]; order != 0) return order;
        }
        return std::strong_ordering::equal;
    }
};

/// Parses a text such as "0.19.6", "5" or "4.41.0.dev0". Letters after the numbers are ignored. Throws Error (exit 2)
/// for a text without a number.
FrameworkVersion parse_version(std::string_view text);
std::string to_string(const FrameworkVersion& version);
/// Returns how far two different versions are apart, in the first number that differs: "2 minor versions".
std::string distance_text(const FrameworkVersion& a, const FrameworkVersion& b);

}  // namespace macheps::configs
