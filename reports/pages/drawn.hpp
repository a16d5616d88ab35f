// SPDX-License-Identifier: Apache-2.0
// Selects the policies that a page draws, because readers, browsers and colour scales can only handle a limited number.
#pragma once
#include "reports/findings/divergence.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace macheps::reports {

/// Maximum number of policies that a page draws in addition to the baseline.
inline constexpr std::size_t max_drawn = 100;

/// Returns the part of a summary that a page draws: the baseline and up to `most` policies, in the order of the
/// summary. Diverged policies are selected first, then policies by decreasing size of their relative gap, then policies
/// without a gap. If policies are left out, a note says so.
Summary drawn_of(const Summary& summary, std::size_t most = max_drawn);

}  // namespace macheps::reports
