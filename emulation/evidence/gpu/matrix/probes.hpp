// SPDX-License-Identifier: Apache-2.0
// Rows of `macheps verify` about matrix instructions. Host only.
#pragma once
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Every form of forms.hpp and every question of questions.hpp. Nothing is asked of the device before one of them runs;
/// that throws Error (no_device) where there is none. A form that the device lacks, or for which this build holds no
/// code, is a row with the verdict `declined`.
std::vector<evidence::ProbeGroup> instruction_probe_groups(int device);

/// Every form of sparse_forms.hpp, in the same way.
std::vector<evidence::ProbeGroup> sparse_probe_groups(int device);

}  // namespace macheps::evidence
