// SPDX-License-Identifier: Apache-2.0
// The units of this CPU against their machines, on every class of operands. Host only.
#pragma once
#include "emulation/evidence/cpu/cpu_units.hpp"
#include "emulation/evidence/probe.hpp"
#include "emulation/machine/machine.hpp"

#include <vector>

namespace macheps::evidence {

/// `cpu:vdpbf16ps.k2.f32.bf16.bf16.f32`, `convert:vcvtneps2bf16.k1.bf16.f32`. What this CPU lacks gives one row, `absent`.
/// `most`: results of one instruction, to a tile, where the time is enough; 0: as many as there is time for. `mutant`: a name of
/// mutants.hpp; the instructions that have such a wrong model are compared with it. Errors: running throws Error when no instruction has.
std::vector<ProbeGroup> cpu_probe_groups(std::uint64_t most = 0, const std::string& mutant = {});

/// A unit of this CPU against the machine that describes it, for a blink.
struct LiveCheck {
    std::string instruction{};
    std::uint64_t results = 0, mismatches = 0;
};
std::vector<LiveCheck> check_on_this_cpu(const Machine& machine);

}  // namespace macheps::evidence
