// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/replay.hpp"

#include "emulation/cpu/matmul/machine/instruction_grid.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/evidence/traces/diagnosis.hpp"

#include <fmt/format.h>

#include <chrono>

namespace macheps::evidence {

void replay(const Trace& trace, const ProbeSink& sink) {
    const Instruction instruction = row_instruction(trace.form);
    const Machine& machine = *instruction.machine;
    const Format& result = machine.result;
    const auto is_nan = [&](std::uint64_t code) { return (code & result.magnitude_mask()) > result.inf_code(); };
    const auto same = [&](std::uint64_t x, std::uint64_t y) {
        return x == y || (!machine.fixes_nan() && is_nan(x) && is_nan(y));
    };
    std::vector<ProbeResult> rows;
    for (const TraceRow& row : trace.rows) {
        const auto start = std::chrono::steady_clock::now();
        auto found = rows.begin();
        while (found != rows.end() && found->operands != row.cls) ++found;
        if (found == rows.end()) {
            rows.push_back({.kind = "replay",
                            .instruction = trace.form.instr + "." + trace.form.qual,
                            .operands = row.cls,
                            .model = std::string(machine.name),
                            .note = {}});
            found = rows.end() - 1;
        }
        ++found->trials;
        const InstructionOperands operands{.a = row.a, .b = row.b, .c = row.c, .a_scale = {}, .b_scale = {}};
        std::string wrong;
        const auto check = [&](std::string_view engine, std::uint64_t d) {
            if (!same(d, row.d) && wrong.empty())
                wrong = fmt::format("{} gives {}; {}", engine, hex_digits(result, d), row_text(trace.form, row));
        };
        check("scalar", evaluate_instruction(instruction, operands));
        if (has_instruction_grid(instruction)) {
            const std::vector<InstructionOperands> one{operands};
            for (const Simd level : available_simd()) {
                if (level == Simd::scalar) continue;
                for (const std::uint64_t d : instruction_grid(level, instruction, one, one)) check(simd_name(level), d);
            }
        }
        if (!wrong.empty() && found->mismatches++ == 0) found->note = wrong;
        found->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    const std::string cause = diagnose(trace);
    for (ProbeResult& row : rows) {
        if (row.mismatches > 0 && !cause.empty()) row.note += "; cause: " + cause;
        row.verdict = row.mismatches == 0 ? Verdict::equal : Verdict::differs;
        if (row.note.empty()) row.note = trace.gpu;
        sink(row);
    }
}

}  // namespace macheps::evidence
