// SPDX-License-Identifier: Apache-2.0
// Escapes text for HTML pages.
#pragma once
#include <string>
#include <string_view>

namespace macheps::reports {

/// Returns `text` for HTML. The characters & < > " ' become character references. Control characters and other
/// invisible characters become visible escapes, except line ends and tabs (printable_lines() in core/text/shown.hpp).
std::string escape_html(std::string_view text);

}  // namespace macheps::reports
