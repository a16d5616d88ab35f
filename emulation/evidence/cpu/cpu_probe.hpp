// SPDX-License-Identifier: Apache-2.0
// Comparison of this CPU's units with their machines, on every class of operands. Host only.
#pragma once
#include "emulation/evidence/cpu/cpu_units.hpp"
#include "emulation/evidence/probe.hpp"
#include "emulation/machine/machine.hpp"

#include <vector>

namespace macheps::evidence {

/// Returns the probes of this CPU, such as `cpu:vdpbf16ps.k2.f32.bf16.bf16.f32` and
/// `convert:vcvtneps2bf16.k1.bf16.f32`. An instruction that this CPU lacks gives one row with the verdict `absent`.
/// `most`: number of results of one instruction, rounded up to whole tiles, if the time is enough; 0: as many as the
/// time allows. `mutant`: name of a wrong model of mutants.hpp. Only the instructions that have this wrong model are
/// probed, and they are compared with it.
/// Errors: throws Error (usage) if no instruction has this wrong model.
std::vector<ProbeGroup> cpu_probe_groups(std::uint64_t most = 0, const std::string& mutant = {});

/// Result of a short comparison of a unit of this CPU with the machine that describes it.
struct LiveCheck {
    std::string instruction{};
    std::uint64_t results = 0, mismatches = 0;
};
std::vector<LiveCheck> check_on_this_cpu(const Machine& machine);

}  // namespace macheps::evidence
