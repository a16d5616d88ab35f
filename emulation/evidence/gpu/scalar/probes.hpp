// SPDX-License-Identifier: Apache-2.0
// Rows of `macheps verify` about scalars: conversions, arithmetic, approximated functions, and our own functions on the
// device and on the host.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of a device, of the kinds `convert`, `scalar` and `math`. The device is not used before the first
/// one runs.
std::vector<evidence::ProbeGroup> scalar_probe_groups(int device);

}  // namespace macheps::evidence
