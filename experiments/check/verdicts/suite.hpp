// SPDX-License-Identifier: Apache-2.0
// A suite: a file of declarations, each with the files that it holds for. Keys of a check are those of the command line
// (declare.hpp, options.hpp), beside name, op, files, arrays and line.
#pragma once
#include "experiments/check/options.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct SuiteCheck {
    std::string name;       ///< its own, or its operation's
    std::string operation;  ///< as it is written
    std::string where;      ///< of its first key, for errors: `suite.toml:4:1`
    std::string files{};    ///< a pattern
    std::string files_where{};
    std::map<std::string, std::string> arrays{};  ///< by role: the array's name in the files
    std::uint32_t line = 0;  ///< of the kernel in the suite's `source`, or of the check in the suite
    Declaration declaration{};
    Options options{};
    std::string declined{};  ///< why it is not judged; empty where it is
};

struct Suite {
    std::string file;      ///< as errors name it
    std::string source{};  ///< the kernels' source, where annotations point; empty: they point into the suite
    std::vector<SuiteCheck> checks{};
};

/// Reads a suite. Files are not looked for. What cannot be judged yet is declined by name and ends nothing. Errors: throws
/// Error (usage) with line, column and the nearest word.
Suite parse_suite(std::string_view text, const std::string& file);
/// The same of a file. Throws Error (bad input) where it cannot be read.
Suite load_suite(const std::filesystem::path& file);

/// The regular files that a pattern matches (`*`, `?`, `[...]`, each within one folder's name), from the working folder,
/// in the order of their bytes. A name that begins with a dot is matched by a dot only. Errors: throws Error (bad input)
/// for a folder that cannot be listed, and (usage) where more than most_names_looked_at names would be looked at.
std::vector<std::string> matching_files(const std::string& pattern);
inline constexpr std::size_t most_names_looked_at = 100000;

}  // namespace macheps::check
