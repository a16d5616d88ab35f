// SPDX-License-Identifier: Apache-2.0
// The page's parts as text, compiled in by embed.cmake.
#pragma once
#include <string_view>

namespace macheps::reports::page_assets {

extern const std::string_view html, css, js;
/// Chart.js; empty if it was not found at configure time. The page then says so instead of showing charts.
extern const std::string_view chart;
/// The licence notices of the libraries that a page contains.
extern const std::string_view notices;

}  // namespace macheps::reports::page_assets
