// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/versions.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <iterator>

namespace macheps::configs {

FrameworkVersion parse_version(std::string_view text) {
    FrameworkVersion version;
    std::string_view rest = text.starts_with('v') ? text.substr(1) : text;
    std::size_t count = 0;
    while (count < version.numbers.size()) {
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), version.numbers[count]);
        if (error != std::errc{} || version.numbers[count] < 0) {
            version.numbers[count] = 0;
            break;
        }
        ++count;
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        if (!rest.starts_with('.')) break;
        rest.remove_prefix(1);
    }
    if (count == 0) {
        throw Error({.what = fmt::format("'{}' is not a valid version", text),
                     .where = "version",
                     .fix = "write numbers with dots: 0.16.5",
                     .exit = Exit::usage});
    }
    return version;
}

std::string to_string(const FrameworkVersion& version) {
    const auto& [major, minor, patch] = version.numbers;
    return patch == 0 ? fmt::format("{}.{}", major, minor) : fmt::format("{}.{}.{}", major, minor, patch);
}

std::string distance_text(const FrameworkVersion& a, const FrameworkVersion& b) {
    constexpr std::string_view parts[] = {"major", "minor", "patch"};
    std::size_t at = 0;
    while (at + 1 < std::size(parts) && a.numbers[at] == b.numbers[at]) ++at;
    const int distance = std::abs(a.numbers[at] - b.numbers[at]);
    return fmt::format("{} {} version{}", distance, parts[at], distance == 1 ? "" : "s");
}

}  // namespace macheps::configs
