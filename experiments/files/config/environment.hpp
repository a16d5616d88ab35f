// SPDX-License-Identifier: Apache-2.0
// Variables of an environment as a file: `NAME=VALUE` lines, as `env` prints them and as `.env` files have them.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace macheps::files {

using Environment = std::map<std::string, std::string, std::less<>>;

/// Blank lines and lines that begin with `#` say nothing; `export ` before a name and quotes around a value are left out.
/// Throws Error (exit 3, with the line) for any other line.
Environment parse_environment(std::string_view text, const std::string& name);
/// Throws Error (exit 3) also for a file that cannot be read.
Environment read_environment_file(const std::string& path);

}  // namespace macheps::files
