// SPDX-License-Identifier: Apache-2.0
// Findings as GitHub workflow commands, which GitHub shows next to the lines of a change. Host only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace macheps::reports {

struct Annotation {
    std::string level;  ///< error, warning or notice; `note` is written as notice
    std::string title, text;
    std::string file{};                  ///< empty if the finding belongs to no file
    std::uint32_t line = 0, column = 0;  ///< from 1; 0 if unknown
};

/// Returns one line for each annotation: `::error file=...,line=...,title=...::...`. Names and texts are escaped, so
/// they cannot end the line or begin another command. Only the first `most` annotations are written, because GitHub
/// shows ten per step and drops the others.
std::string annotation_lines(std::span<const Annotation> annotations,
                             std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace macheps::reports
