// SPDX-License-Identifier: Apache-2.0
// Which policies a page draws: a reader, a browser and a colour scale have room for so many.
#pragma once
#include "reports/findings/divergence.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace macheps::reports {

/// Beside the baseline.
inline constexpr std::size_t most_drawn = 100;

/// The part of a summary that a page draws: the baseline, and the `most` policies whose loss differs most from the
/// baseline's, in the order of the summary. Those that diverged differ most of all, then by the size of the relative
/// gap; those without a gap come last. Where policies are left out, a note says so.
Summary drawn_of(const Summary& summary, std::size_t most = most_drawn);

}  // namespace macheps::reports
