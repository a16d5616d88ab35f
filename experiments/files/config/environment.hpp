// SPDX-License-Identifier: Apache-2.0
// Reads environment variables from files of `NAME=VALUE` lines, such as the output of `env` or a `.env` file.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace macheps::files {

using Environment = std::map<std::string, std::string, std::less<>>;

/// Reads environment variables from a text. Skips blank lines and lines that begin with `#`. Removes `export ` before a
/// name and quotes around a value. Throws Error (exit 3) with the line number if any other line is not NAME=VALUE.
Environment parse_environment(std::string_view text, const std::string& name);
/// Does the same for a file. Also throws Error (exit 3) if the file cannot be read.
Environment read_environment_file(const std::string& path);

}  // namespace macheps::files
