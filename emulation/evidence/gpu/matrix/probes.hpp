// SPDX-License-Identifier: Apache-2.0
// Rows of `macheps verify` about matrix instructions. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of all forms of forms.hpp and all questions of questions.hpp. The device is not used before one
/// of them runs; without a device, that throws Error (no_device). A form that the device lacks, or for which this build
/// has no code, gives a row with the verdict `declined`.
std::vector<evidence::ProbeGroup> instruction_probe_groups(int device);

/// Returns the probes of all forms of sparse_forms.hpp. They behave in the same way.
std::vector<evidence::ProbeGroup> sparse_probe_groups(int device);

}  // namespace macheps::evidence
