// SPDX-License-Identifier: Apache-2.0
// A suite is a file of declarations, each with the files that it holds for. A check has the keys of the command line
// (declare.hpp, options.hpp), and name, op, files, arrays and line.
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
    std::string operation;  ///< as written in the suite
    std::string where;      ///< place of the check, for errors: `suite.toml:4:1`
    std::string files{};    ///< a pattern
    std::string files_where{};
    std::map<std::string, std::string> arrays{};  ///< by role: the array's name in the files
    std::uint32_t line = 0;  ///< line of the kernel in the suite's `source`, or of the check in the suite
    Declaration declaration{};
    Options options{};
    std::string declined{};  ///< why the check is not judged; empty if it is
};

struct Suite {
    std::string file;      ///< as errors name it
    std::string source{};  ///< the kernels' source file, for annotations; empty: they point into the suite
    std::vector<SuiteCheck> checks{};
};

/// Reads a suite. It does not look for the files of the checks. A check with a feature that is not judged yet is marked
/// as declined and does not cause an error. Errors: throws Error (usage) with line, column and the nearest word.
Suite parse_suite(std::string_view text, const std::string& file);
/// Reads a suite from a file. Errors: also throws Error (bad input) if the file cannot be read.
Suite load_suite(const std::filesystem::path& file);

/// Returns the regular files that a pattern matches, from the working folder, in the order of their bytes. `*`, `?` and
/// `[...]` match within one folder's name. Only a dot matches the dot at the beginning of a name. Errors: throws Error
/// (bad input) if a folder cannot be listed, and (usage) if more than most_names_looked_at names would have to be
/// examined.
std::vector<std::string> matching_files(const std::string& pattern);
inline constexpr std::size_t most_names_looked_at = 100000;

}  // namespace macheps::check
