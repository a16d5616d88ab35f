// SPDX-License-Identifier: Apache-2.0
// Test cases as JUnit's XML, which every CI server reads. Host only.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::reports {

struct JUnitCase {
    enum class Result : std::uint8_t { passed, failure, error, skipped };

    std::string classname, name;
    Result result = Result::passed;
    std::string type{}, message{}, text{};  ///< of what is not passed
    std::vector<std::pair<std::string, std::string>> properties{};
    std::optional<double> seconds{};
};

/// One document of one suite. A time stands in it where a case has one. Any bytes may stand in the strings: what XML 1.0
/// cannot hold becomes U+FFFD.
std::string junit_text(std::string_view suite, std::span<const JUnitCase> cases);

}  // namespace macheps::reports
