// SPDX-License-Identifier: Apache-2.0
// Reads suites. A suite is a TOML file with a list of checks. Each check declares a kernel and names the files to
// judge. The keys of a check are those of the command line (declare.hpp, options.hpp), and name, op, files, arrays and
// line.
#pragma once
#include "experiments/check/options.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// A pattern of file names in a suite, or the name of one file.
struct FilePattern {
    std::string text;   ///< relative to the working folder
    std::string where;  ///< place in the suite, for errors

    /// Returns the name of the file if the pattern has no special characters, otherwise an empty text.
    std::string name() const;
};

struct SuiteCheck {
    std::string name;       ///< name of the check; by default, of the operation
    std::string operation;  ///< as written in the suite
    std::string where;      ///< place of the check, for errors: `suite.toml:4:1`
    std::vector<FilePattern> files{};
    std::map<std::string, std::string> arrays{};  ///< from a role to the array's name in the files
    std::uint32_t line = 0;                       ///< line of the kernel in Suite::source, or of the check in the suite
    Declaration declaration{};
    Options options{};
    std::string declined{};  ///< reason why the check is not judged; empty if it is judged
};

struct Suite {
    std::string file;                   ///< path of the suite, for errors
    bool is_relative_to_suite = false;  ///< patterns are relative to the folder of the suite, not to the working folder
    std::string source{};               ///< source file of the kernels, for annotations; empty: they point to the suite
    std::vector<SuiteCheck> checks{};
};

/// Parses a suite. Does not look for the files of the checks. If a check uses a feature that is not supported yet, the
/// check is marked as declined, and this is not an error. Errors: throws Error (usage), which names the line and the
/// column and, for an unknown word, suggests the most similar one.
Suite parse_suite(std::string_view text, const std::string& file);
/// Reads a suite from a file. Errors: also throws Error (bad input) if the file cannot be read.
Suite load_suite(const std::filesystem::path& file);

/// Returns the regular files that match a pattern, sorted by the bytes of their paths. The pattern is relative to the
/// working folder. `*`, `?` and `[...]` do not match a slash. A dot at the beginning of a name is matched only by a dot
/// in the pattern. Errors: throws Error (bad input) if a folder cannot be listed, and Error (usage) if the pattern
/// requires a search of more than most_names_looked_at names.
std::vector<std::string> matching_files(const std::string& pattern);
/// Returns the files of a check, each once, sorted by the bytes of their paths. A file that is named without special
/// characters belongs to the check even if it does not exist. Errors: as matching_files(), and throws Error (usage) if
/// a pattern matches no file.
std::vector<std::string> files_of(const SuiteCheck& check);
inline constexpr std::size_t most_names_looked_at = 100000;

}  // namespace macheps::check
