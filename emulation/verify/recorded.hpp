// SPDX-License-Identifier: Apache-2.0
// Traces that are in the tree that this program was built from. Host only.
#pragma once
#include "emulation/machine/machine.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps::verify {

/// What the name of a trace below tests/traces says.
struct RecordedTrace {
    std::string gpu;                ///< `nvidia-h200`
    std::string arch, instr, qual;  ///< `sm_90`, `wgmma`, `m64n8k32.f32.e4m3.e4m3`
};

/// `nvidia-h200/sm_90.wgmma.m64n8k32.f32.e4m3.e4m3.jsonl.zst`; empty fields where the name is none of these.
RecordedTrace parse_trace_path(std::string_view path);

std::vector<RecordedTrace> recorded_traces();

/// GPUs on which `traces` cover an instruction of this machine, and which: `nvidia-h200 (m64n8k32.f32.e4m3.e4m3)`;
/// empty: the machine is unverified.
std::vector<std::string> gpus_with_traces(const Machine& machine, const std::vector<RecordedTrace>& traces);

}  // namespace macheps::verify
