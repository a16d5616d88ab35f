// SPDX-License-Identifier: Apache-2.0
// Everything that `macheps verify` can run on a GPU. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of matrix instructions and the questions about them, of conversions, of scalar arithmetic and of
/// libraries. Their names are available without a device. Running a probe throws Error (no_device) if there is no
/// device.
std::vector<evidence::ProbeGroup> probe_groups(int device);

}  // namespace macheps::evidence
