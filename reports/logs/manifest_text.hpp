// SPDX-License-Identifier: Apache-2.0
// The text of a manifest.json, before anyone makes a tree of it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace macheps::reports {

/// The largest that is written and read. One of 15 policies on a model of 24 blocks has 3 MB, mostly resolved tables.
inline constexpr std::uint64_t most_manifest_bytes = std::uint64_t{64} << 20;

/// Reads the file. Throws Error, Exit::bad_input, for one that is larger, or nests deeper than `most_levels` (with the
/// line). Whether it is JSON is for its reader to say.
std::string read_manifest_text(const std::filesystem::path& path);

}  // namespace macheps::reports
