// SPDX-License-Identifier: Apache-2.0
// The text of a manifest.json, checked before it is parsed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace macheps::reports {

/// Maximum size of a manifest.json, for writing and for reading. For comparison, the manifest of 15 policies for a
/// model of 24 blocks has 3 MB, most of which are the resolved tables of the policies.
inline constexpr std::uint64_t max_manifest_bytes = std::uint64_t{64} << 20;

/// Returns the text of the file. Does not check that the text is JSON. Throws Error, Exit::bad_input, if the file is
/// larger than the limit, or if its brackets are nested deeper than `max_levels` (the error names the line).
std::string read_manifest_text(const std::filesystem::path& path);

}  // namespace macheps::reports
