// SPDX-License-Identifier: Apache-2.0
// Test cases as JUnit XML, which every CI server reads. Host only.
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
    std::string type{}, message{}, text{};  ///< only written if the case did not pass
    std::vector<std::pair<std::string, std::string>> properties{};
    std::optional<double> seconds{};
};

/// Returns a JUnit document with one suite. Writes a time only for cases that have one. The strings may contain any
/// bytes: characters that XML 1.0 does not allow are written as escapes such as `\x1b` (printable_lines()).
std::string junit_text(std::string_view suite, std::span<const JUnitCase> cases);

}  // namespace macheps::reports
