// SPDX-License-Identifier: Apache-2.0
// TOML with several keys in a line, `op = "gemm"; files = "out/*.npz"`: a semicolon outside strings and comments ends a
// line as a line end does.
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
    std::string text{};           ///< TOML 1.0, where the original is no more than TOML with semicolons
    std::vector<Start> starts{};  ///< where each line of `text` stands in the original
    /// The first character outside strings and comments that is no ASCII. TOML has none there, and the parser's tables of
    /// such characters are not to be relied on: some of them lead where its authors say that nothing leads.
    std::optional<Start> stray{};
};

TomlLines split_toml_lines(std::string_view text);

}  // namespace macheps::files
