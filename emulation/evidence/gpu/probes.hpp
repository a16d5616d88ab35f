// SPDX-License-Identifier: Apache-2.0
// Everything that `macheps verify` can run on a GPU. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Matrix instructions and questions about them, conversions and scalar arithmetic, libraries. Their names are there
/// without a device; running one throws Error (no_device) where there is none.
std::vector<evidence::ProbeGroup> probe_groups(int device);

}  // namespace macheps::evidence
