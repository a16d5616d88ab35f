// SPDX-License-Identifier: Apache-2.0
// A trace: the results of a GPU or a CPU for one form of a matrix instruction, in a small file that can be replayed
// anywhere. The file consists of JSON Lines, compressed by zstd: a header object, then rows that `macheps machine eval`
// can read. Host only.
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
    std::string machine;                     ///< name of the model at the time of recording
    std::string gpu, driver, toolkit, sass;  ///< sass: the instruction that is expected in the machine code
    /// Version of the CPU's microcode; empty in a trace of a GPU. In a trace of a CPU, `gpu` is the CPU, `driver` the
    /// operating system and `toolkit` the compiler.
    std::string microcode;
    std::string date;  ///< 2026-01-31
    std::uint64_t seed = 0;
    std::vector<std::pair<std::string, int>> refuted{};  ///< wrong models and the number of rows that refute each
    std::vector<TraceRow> rows{};
};

/// Returns whether the form is sparse (`mma.sp` or `wgmma.sp`). The model of a sparse form is the dense instruction,
/// applied to the products that the sparse instruction selects. Traces of a sparse form contain only these products,
/// and `macheps machine eval` does not read them.
bool is_sparse(const TraceForm& form);
/// Returns the instruction whose operands are in the rows of a trace. For a sparse form, this is the dense instruction
/// over the selected products. Errors: throws Error that names `where` if the instruction is unknown.
Instruction row_instruction(const TraceForm& form, std::string_view where = {});

/// Returns the name of the trace's file, such as `sm_90.wgmma.m64n8k32.f32.e4m3.e4m3`, without the extension that
/// write_json_lines appends.
std::string trace_name(const TraceForm& form);

/// Returns the whole file before compression.
std::string trace_text(const Trace& trace);
/// Parses the text of a trace. Errors: throws Error that names `where` and the line if the header is missing, the
/// version is unknown, a row is for another form, rows are missing, or the digest does not match.
Trace parse_trace(std::string_view text, const std::string& where);

/// Writes the trace to `folder`, which is created if it does not exist, and returns the path. Errors: throws Error
/// (cannot_write).
std::filesystem::path write_trace(const Trace& trace, const std::filesystem::path& folder);
/// Reads `.jsonl.zst` or `.jsonl`. Errors: throws Error (bad_input) that names the file, and the line if there is one.
Trace read_trace(const std::filesystem::path& file);

/// Returns whether a file is the trace of an instruction, judging by its name. Files of sums (`KIND.sums`) and captures
/// of libraries have other names.
bool is_instruction_trace(const std::filesystem::path& file);
/// Returns the traces and captures in a folder and its subfolders, sorted by name. Throws Error (bad_input) if the path
/// does not name a folder.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder);

}  // namespace macheps::evidence
