// SPDX-License-Identifier: Apache-2.0
// Writes one self-contained HTML page about run directories. The page needs no network, works from file://, and has
// light and dark themes.
#pragma once
#include "reports/findings/divergence.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace macheps::reports {

/// The amount of data in a page: `full` is as much as a browser can handle, `small` is a few hundred kB, easy to send.
enum class PageSize : bool { full, small };

/// Returns the page for the policies of `summary` that drawn_of() keeps. Names from the logs are escaped. The page is
/// self-contained, and its Content-Security-Policy lists the hashes of its scripts and its style, so that a browser
/// runs nothing else.
std::string page_html(const Log& log, const Summary& summary, PageSize size = PageSize::full);

/// Returns a page without runs. `section` is HTML with class `measured` that needs no scripts; `heading` and `lead` are
/// plain text.
std::string page_of_section(const std::string& heading, const std::string& lead, const std::string& section);

/// Writes the page atomically, as publish() does. Errors: Exit::cannot_write.
void write_page(const Log& log, const Summary& summary, const std::filesystem::path& page,
                PageSize size = PageSize::full);

/// Returns a manifest's settings as HTML: command, versions, device, seeds, then model, data and training options in
/// words, then the TOML text of each policy and its resolved table (not on a small page). Settings that are absent or
/// do not apply to this run are left out. Keys that this version does not know are shown under their names.
std::string settings_html(const RunFolder& folder, PageSize size = PageSize::full);

}  // namespace macheps::reports
