// SPDX-License-Identifier: Apache-2.0
// Supports TOML files with several keys on one line: `op = "gemm"; files = "out/*.npz"`. A semicolon outside strings
// and comments ends a line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

struct TomlLines {
    struct Start {
        std::uint32_t line = 1, column = 1;
    };
    std::string text{};           ///< the original, with line ends instead of semicolons outside strings and comments
    std::vector<Start> starts{};  ///< where each line of `text` begins in the original
    /// Place of the first non-ASCII character outside strings and comments, where TOML does not allow one. Callers must
    /// reject the text if there is such a character. The parser does not reject all of them reliably: for some
    /// characters, its tables lead to code that its authors mark as unreachable.
    std::optional<Start> stray{};
};

TomlLines split_toml_lines(std::string_view text);

}  // namespace macheps::files
