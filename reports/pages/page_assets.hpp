// SPDX-License-Identifier: Apache-2.0
// The fixed parts of the HTML page as text. embed.cmake compiles them into the program.
#pragma once
#include <string_view>

namespace macheps::reports::page_assets {

extern const std::string_view html, css, js;
/// Chart.js; empty if it was not found at configure time. The page then says so instead of showing charts.
extern const std::string_view chart;
/// The licence notices of the libraries that a page contains.
extern const std::string_view notices;

}  // namespace macheps::reports::page_assets
