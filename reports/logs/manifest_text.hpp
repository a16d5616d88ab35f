// SPDX-License-Identifier: Apache-2.0
// The text of a manifest.json, checked before it is parsed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace macheps::reports {

/// Size limit for writing and reading. A manifest of 15 policies for a model of 24 blocks has 3 MB, mostly resolved
/// tables.
inline constexpr std::uint64_t max_manifest_bytes = std::uint64_t{64} << 20;

/// Reads the file. Throws Error, Exit::bad_input, if it is larger than the limit or nests deeper than `max_levels`
/// (with the line). Does not check that it is JSON.
std::string read_manifest_text(const std::filesystem::path& path);

}  // namespace macheps::reports
