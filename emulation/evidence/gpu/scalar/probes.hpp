// SPDX-License-Identifier: Apache-2.0
// Scalar probes for `macheps verify`: conversions, arithmetic, approximated functions, and macheps' own functions,
// whose results on the device and on the host are compared.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of the kinds `convert`, `scalar` and `math` for a device. The device is opened when the first
/// probe runs.
std::vector<evidence::ProbeGroup> scalar_probe_groups(int device);

}  // namespace macheps::evidence
