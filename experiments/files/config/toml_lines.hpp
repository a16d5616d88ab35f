// SPDX-License-Identifier: Apache-2.0
// Splits TOML with several keys on a line, `op = "gemm"; files = "out/*.npz"`: a semicolon outside strings and comments
// ends a line as a line end does.
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
    std::string text{};           ///< TOML 1.0, if the original is TOML 1.0 except for semicolons
    std::vector<Start> starts{};  ///< where each line of `text` begins in the original
    /// The first character outside strings and comments that is not ASCII. TOML allows none there. Callers refuse such
    /// a text, because the parser's tables of such characters are not reliable: some of them lead to code that its
    /// authors mark as unreachable.
    std::optional<Start> stray{};
};

TomlLines split_toml_lines(std::string_view text);

}  // namespace macheps::files
