// SPDX-License-Identifier: Apache-2.0
// Index of the traces in the source tree from which this program was built. Host only.
#pragma once
#include "emulation/evidence/traces/trace.hpp"
#include "emulation/machine/machine.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::evidence {

/// A line of tests/traces/index.csv: a trace in the tree, and the fields of its header that `macheps machine show`
/// reports.
struct RecordedTrace {
    std::string path{};                      ///< in tests/traces: `h200/sm_90.wgmma.m64n8k32.f32.e4m3.e4m3.jsonl.zst`
    std::string device{}, date{};            ///< `NVIDIA H200`, `2026-11-26`
    std::uint64_t outputs = 0;               ///< rows of the trace
    std::vector<std::string> not_refuted{};  ///< wrong models that no row refutes
    std::string arch{}, instr{}, qual{};     ///< parts of the path: `sm_90`, `wgmma`, `m64n8k32.f32.e4m3.e4m3`

    /// Returns the form, such as `wgmma.m64n8k32.f32.e4m3.e4m3`.
    std::string form() const { return instr + "." + qual; }
};

/// First line of the index file.
inline constexpr std::string_view index_header = "trace,device,date,outputs,not_refuted";
/// Returns the line of the index for a trace at `path`, relative to tests/traces, without the newline.
std::string index_line(const std::string& path, const Trace& trace);
/// Parses a line of the index. If the path in the line does not look like that of a trace, `arch`, `instr` and `qual`
/// are empty.
RecordedTrace parse_index_line(std::string_view line);

std::vector<RecordedTrace> recorded_traces();

/// The traces of one device that cover a machine.
struct DeviceEvidence {
    std::string device{}, first_date{}, last_date{};
    std::uint64_t outputs = 0;
    std::vector<std::string> forms{};  ///< one for each trace: `wgmma.m64n8k32.f32.e4m3.e4m3`, `mma.sp.m16n8k32...`
};
/// Returns the devices whose traces cover an instruction of this machine. If the list is empty, the machine is
/// unverified. A trace of a sparse instruction counts for the machine that adds the selected products.
std::vector<DeviceEvidence> devices_with_traces(const Machine& machine, const std::vector<RecordedTrace>& traces);
/// Returns the wrong models that no trace of this machine refutes.
std::vector<std::string> not_refuted(const Machine& machine, const std::vector<RecordedTrace>& traces);

}  // namespace macheps::evidence
