// SPDX-License-Identifier: Apache-2.0
// A trace: what a GPU or a CPU gave for one form of a matrix instruction, as a small file that can be replayed anywhere.
// JSON Lines, compressed by zstd: a header object, then rows that `macheps machine eval` reads. Host only.
#pragma once
#include "emulation/evidence/traces/trace_row.hpp"
#include "emulation/machine/instruction.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::evidence {

inline constexpr int trace_schema = 1;

struct Trace {
    TraceForm form;
    std::string machine;                     ///< the model when it was recorded
    std::string gpu, driver, toolkit, sass;  ///< sass: expected for the instruction, not read from the machine code
    /// Of a CPU's unit: `gpu` is the CPU, `driver` the operating system, `toolkit` the compiler; and its microcode.
    std::string microcode;
    std::string date;  ///< 2026-01-31
    std::uint64_t seed = 0;
    std::vector<std::pair<std::string, int>> refuted{};  ///< wrong models, and rows that refute them
    std::vector<TraceRow> rows{};
};

/// True for `mma.sp` and `wgmma.sp`. Their model is the dense instruction over the chosen products, and their traces
/// contain these products only. `macheps machine eval` does not read such traces.
bool is_sparse(const TraceForm& form);
/// The instruction whose operands the rows are; of a sparse one, the dense instruction over the chosen products.
/// Errors: throws Error when there is none such, `where` in front.
Instruction row_instruction(const TraceForm& form, std::string_view where = {});

/// Returns `sm_90.wgmma.m64n8k32.f32.e4m3.e4m3`; write_json_lines appends the extension.
std::string trace_name(const TraceForm& form);

/// The whole file before compression.
std::string trace_text(const Trace& trace);
/// Errors: throws Error that names `where` and the line when anything is off: no header, another version, a row that is
/// not of this form, rows missing, a digest that does not fit.
Trace parse_trace(std::string_view text, const std::string& where);

/// Writes below `folder`, which is made; returns the path. Errors: throws Error (cannot_write).
std::filesystem::path write_trace(const Trace& trace, const std::filesystem::path& folder);
/// Reads `.jsonl.zst` or `.jsonl`. Errors: throws Error (bad_input) naming file, and line where there is one.
Trace read_trace(const std::filesystem::path& file);

/// Returns false for files of sums (`KIND.sums`) and captures of libraries, judging by the file's name.
bool is_instruction_trace(const std::filesystem::path& file);
/// Returns the traces and captures in a folder and its subfolders, sorted by name. Throws Error (bad_input) if the path does
/// not name a folder.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder);

}  // namespace macheps::evidence
