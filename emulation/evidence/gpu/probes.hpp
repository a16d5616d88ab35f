// SPDX-License-Identifier: Apache-2.0
// All probes that `macheps verify` can run on a GPU. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of matrix instructions (dense, sparse, and questions about them), scalar operations and
/// libraries. Their names are available without a device, but running a probe then throws Error (no_device). If only a
/// library is missing, the probes of this library are `declined`.
std::vector<evidence::ProbeGroup> probe_groups(int device);

}  // namespace macheps::evidence
