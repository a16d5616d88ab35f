// SPDX-License-Identifier: Apache-2.0
// Escapes text for HTML pages.
#pragma once
#include <string>
#include <string_view>

namespace macheps::reports {

/// Returns `text` as visible characters and line ends (core/text/shown.hpp), with & < > " ' as character references.
std::string escape_html(std::string_view text);

}  // namespace macheps::reports
