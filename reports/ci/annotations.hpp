// SPDX-License-Identifier: Apache-2.0
// Findings as GitHub's workflow commands, which show beside a line of a change. Host only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace macheps::reports {

struct Annotation {
    std::string level;  ///< error, warning, notice; `note` is a notice
    std::string title, text;
    std::string file{};                  ///< empty: of no file
    std::uint32_t line = 0, column = 0;  ///< from 1; 0: not said
};

/// A line for each: `::error file=...,line=...,title=...::...`. What a name or a text holds cannot end the line or begin
/// another command. Beyond `most` there is none: GitHub shows ten of a step and drops the others.
std::string annotation_lines(std::span<const Annotation> annotations,
                             std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace macheps::reports
