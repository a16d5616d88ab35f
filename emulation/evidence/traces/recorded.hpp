// SPDX-License-Identifier: Apache-2.0
// Traces in the source tree that this program was built from. Host only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"
#include "emulation/machine/machine.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::evidence {

/// A line of tests/traces/index.csv: a trace in the tree, and the facts of its header that `macheps machine show`
/// reports.
struct RecordedTrace {
    std::string path{};            ///< below tests/traces: `h200/sm_90.wgmma.m64n8k32.f32.e4m3.e4m3.jsonl.zst`
    std::string device{}, date{};  ///< `NVIDIA H200`, `2026-11-26`
    std::uint64_t outputs = 0;     ///< rows of the trace
    std::vector<std::string> not_refuted{};  ///< wrong models that no row refutes
    std::string arch{}, instr{}, qual{};     ///< from the path: `sm_90`, `wgmma`, `m64n8k32.f32.e4m3.e4m3`

    /// Returns the form, such as `wgmma.m64n8k32.f32.e4m3.e4m3`.
    std::string form() const { return instr + "." + qual; }
};

/// The first line of the index.
inline constexpr std::string_view index_header = "trace,device,date,outputs,not_refuted";
/// Returns the line for a trace at `path` below tests/traces, without the newline.
std::string index_line(const std::string& path, const Trace& trace);
/// Parses such a line. `arch`, `instr` and `qual` are empty if the path is not the path of a trace.
RecordedTrace parse_index_line(std::string_view line);

std::vector<RecordedTrace> recorded_traces();

/// The traces of one device that cover a machine.
struct DeviceEvidence {
    std::string device{}, first_date{}, last_date{};
    std::uint64_t outputs = 0;
    std::vector<std::string> forms{};  ///< one for each trace: `wgmma.m64n8k32.f32.e4m3.e4m3`, `mma.sp.m16n8k32...`
};
/// Returns the devices whose traces cover an instruction of this machine. If there are none, the machine is unverified.
/// A sparse instruction counts as an instruction of the machine that adds its chosen products.
std::vector<DeviceEvidence> devices_with_traces(const Machine& machine, const std::vector<RecordedTrace>& traces);
/// Returns the wrong models that no trace of this machine refutes.
std::vector<std::string> not_refuted(const Machine& machine, const std::vector<RecordedTrace>& traces);

}  // namespace macheps::evidence
