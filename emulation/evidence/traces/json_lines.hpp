// SPDX-License-Identifier: Apache-2.0
// Files of JSON Lines, compressed by zstd: a header object that holds a digest of the file, then one object per line.
// Host only.
#pragma once
#include "core/error.hpp"
#include "core/text/json.hpp"
#include "core/text/shown.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

namespace macheps::evidence {

/// Returns whether this build reads and writes `.zst`.
bool has_zstd();

/// Returns the digest of a file: a hash of the header without its member "digest", and of all lines after the header.
std::string json_lines_digest(const Json& header, std::string_view lines);
/// Adds the digest to the header, and returns the header and the lines as one text.
std::string json_lines_text(Json header, std::string_view lines);
/// Parses the header in the first line, checks the digest, and returns the header without the digest. Errors: throws
/// Error that names `where`.
Json json_lines_header(std::string_view text, const std::string& where);

/// Writes `name.jsonl.zst` (`name.jsonl` in a build without zstd) to `folder`, which is created if it does not exist.
/// Returns the path. Errors: throws Error (cannot_write).
std::filesystem::path write_json_lines(const std::filesystem::path& folder, const std::string& name,
                                       const std::string& text);
/// Reads `.jsonl.zst` or `.jsonl`. Errors: throws Error (bad_input) that names the file.
std::string read_json_lines(const std::filesystem::path& file);

/// Parses one line as a JSON object. Errors: throws Error that names `where`.
Json parse_json_line(std::string_view line, const std::string& where);

[[noreturn]] void bad_json_lines(std::string what, std::string where);

/// Returns the member `key` of an object. printable() first makes a string one line of visible characters. Errors:
/// throws Error if the member is missing or has another type.
template <class T>
T json_field(const Json& object, const char* key, const std::string& where) {
    const Json* found = object.find(key);
    if (found == nullptr) bad_json_lines(fmt::format("\"{}\" is missing", key), where);
    try {
        if constexpr (std::is_same_v<T, std::string>)
            return printable(found->string());
        else
            return found->get<T>();
    } catch (const JsonError&) {
        bad_json_lines(fmt::format("\"{}\" does not have the expected type", key), where);
    }
}

}  // namespace macheps::evidence
