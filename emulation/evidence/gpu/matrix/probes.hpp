// SPDX-License-Identifier: Apache-2.0
// Probes of matrix instructions for `macheps verify`. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of all forms in forms.hpp and of all questions in questions.hpp. The device is opened when the
/// first probe runs. Without a device, running a probe throws Error (no_device). If the device lacks an instruction
/// form or this build does not have code for it, the probe gives a row with the verdict `declined`.
std::vector<evidence::ProbeGroup> instruction_probe_groups(int device);

/// Returns the probes of all forms in sparse_forms.hpp. They open the device, throw and decline like the probes of
/// instruction_probe_groups().
std::vector<evidence::ProbeGroup> sparse_probe_groups(int device);

}  // namespace macheps::evidence
