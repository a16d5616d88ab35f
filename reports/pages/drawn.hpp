// SPDX-License-Identifier: Apache-2.0
// Selects the policies that a page draws, because readers, browsers and colour scales can only handle a limited number.
#pragma once
#include "reports/findings/divergence.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace macheps::reports {

/// Maximum number of policies in addition to the baseline.
inline constexpr std::size_t max_drawn = 100;

/// Returns the part of a summary that a page draws: the baseline, and the `most` policies whose loss differs most from
/// the baseline's, in the order of the summary. Diverged policies count as the most different, then the others by the
/// size of their relative gap, then those without a gap. If policies are left out, a note says so.
Summary drawn_of(const Summary& summary, std::size_t most = max_drawn);

}  // namespace macheps::reports
