// SPDX-License-Identifier: Apache-2.0
// One self-contained HTML page from run directories: no network, works from file://, light and dark.
#pragma once
#include "reports/findings/divergence.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace macheps::reports {

/// How much of the rows a page holds: as much as a browser has room for, or some hundred kB to send along.
enum class PageSize : bool { full, small };

/// The page's text: of the policies that drawn_of() keeps of `summary`. Names from the logs are escaped; everything the
/// page needs stands in it, and its Content-Security-Policy names its scripts and its style by their hashes, so that a
/// browser runs nothing else.
std::string page_html(const Log& log, const Summary& summary, PageSize size = PageSize::full);

/// Writes the page in one step. Errors: Exit::cannot_write.
void write_page(const Log& log, const Summary& summary, const std::filesystem::path& page,
                PageSize size = PageSize::full);

/// A manifest's settings as HTML: command, versions, device, seeds, then model, data and training options in words,
/// then the policies' TOML, and what they resolve to (not on a small page). Whatever is absent, or says nothing of this
/// run, is left out; keys that this version does not know are shown under their names.
std::string settings_html(const RunFolder& folder, PageSize size = PageSize::full);

}  // namespace macheps::reports
