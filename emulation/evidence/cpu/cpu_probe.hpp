// SPDX-License-Identifier: Apache-2.0
// Compares the dot-product units of this CPU with the machines that describe them, on every class of operands. Host
// only.
#pragma once
#include "emulation/evidence/cpu/cpu_units.hpp"
#include "emulation/evidence/probe.hpp"
#include "emulation/machine/machine.hpp"

#include <vector>

namespace macheps::evidence {

/// Returns the probes of this CPU, such as `cpu:vdpbf16ps.k2.f32.bf16.bf16.f32` and
/// `convert:vcvtneps2bf16.k1.bf16.f32`. An instruction that this CPU lacks gives one row with the verdict `absent`.
/// `most` limits the number of results per instruction. It is rounded up to whole tiles; 0 means as many results as the
/// time allows.
/// If `mutant` is not empty, it is the name of a wrong model in mutants.hpp. Then only the instructions that have this
/// wrong model are probed, and their results are compared with it. Throws Error (usage) if no instruction has this
/// wrong model.
std::vector<ProbeGroup> cpu_probe_groups(std::uint64_t most = 0, const std::string& mutant = {});

/// Result of a short comparison between a dot-product unit of this CPU and the machine that describes it.
struct LiveCheck {
    std::string instruction{};
    std::uint64_t results = 0, mismatches = 0;
};
std::vector<LiveCheck> check_on_this_cpu(const Machine& machine);

}  // namespace macheps::evidence
