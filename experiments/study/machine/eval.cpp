// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/machine/eval.hpp"

#include "core/error.hpp"
#include "emulation/cpu/matmul/machine/instruction_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <istream>
#include <span>

namespace macheps::study {

namespace {

/// Evaluates the instruction once by itself, and again as every element of a matrix that is wider than a panel of the
/// kernels. Returns all results.
template <Simd level>
std::vector<std::uint64_t> run_on(const Instruction& instruction, const InstructionOperands& operands) {
    constexpr std::size_t rows = 3, columns = 67;
    const std::vector<InstructionOperands> copies(columns, operands);
    const std::span<const InstructionOperands> all(copies);
    std::vector<std::uint64_t> results = instruction_grid(level, instruction, all.first(1), all.first(1));
    const auto more = instruction_grid(level, instruction, all.first(rows), all);
    results.insert(results.end(), more.begin(), more.end());
    return results;
}

constexpr std::array<InstructionEngine, 3> all_engines{{
    {"scalar",
     [](const Instruction& i, const InstructionOperands& x) {
         return std::vector<std::uint64_t>{evaluate_instruction(i, x)};
     },
     [](const Instruction&) { return true; }},
    {"avx2", run_on<Simd::avx2>, has_instruction_grid},
    {"avx512", run_on<Simd::avx512>, has_instruction_grid},
}};

}  // namespace

std::vector<const InstructionEngine*> instruction_engines() {
    std::vector<const InstructionEngine*> here;
    for (const Simd level : available_simd()) {
        here.push_back(std::find_if(all_engines.begin(), all_engines.end(),
                                    [&](const InstructionEngine& engine) { return engine.name == simd_name(level); }));
    }
    return here;
}

InstructionCount& MachineEvaluation::count_of(const std::string& instruction, const std::string& machine) {
    for (InstructionCount& count : counts) {
        if (count.instruction == instruction) return count;
    }
    counts.push_back({.instruction = instruction, .machine = machine});
    counts.back().ran.resize(engines.size());
    counts.back().agreed.resize(engines.size());
    return counts.back();
}

void MachineEvaluation::add(std::size_t number, const MachineLine& line, std::size_t most) {
    InstructionCount& count = count_of(line.instruction.name, std::string(line.instruction.machine->name));
    ++lines;
    ++count.lines;
    std::string took;
    bool right = true;
    for (std::size_t e = 0; e < engines.size(); ++e) {
        if (!engines[e]->takes(line.instruction)) continue;
        ++count.ran[e];
        bool agreed = true;
        for (const std::uint64_t d : engines[e]->run(line.instruction, line.operands)) {
            const auto match = line.matches(d);
            // A result agrees only if it matches the same entry of the line (`d` or an alternative) as all results
            // before it.
            if (match && (took.empty() || *match == took)) {
                took = *match;
                continue;
            }
            agreed = false;
            if (mismatches.size() < most) mismatches.push_back({number, line, engines[e]->name, d});
            break;
        }
        count.agreed[e] += agreed ? 1 : 0;
        right = right && agreed;
    }
    wrong += right ? 0 : 1;
    count.agree += right ? 1 : 0;
    if (!right || took.empty()) return;
    count.alternative += took == "d" ? 0 : 1;
    if (!line.alternatives.empty()) disputed.push_back({number, line.instruction.name, line.kind, took});
}

void MachineEvaluation::add(std::size_t number, const ConversionLine& line, std::size_t most) {
    InstructionCount& count = count_of(line.instruction, fmt::format("codec {}", line.profile));
    const bool right = line.result == line.d;
    ++lines;
    ++count.lines;
    for (std::size_t e = 0; e < engines.size(); ++e) {
        if (engines[e]->name != simd_name(Simd::scalar)) continue;
        ++count.ran[e];
        count.agreed[e] += right ? 1 : 0;
    }
    count.agree += right ? 1 : 0;
    wrong += right ? 0 : 1;
    if (!right && conversion_mismatches.size() < most) conversion_mismatches.push_back({number, line});
}

void MachineEvaluation::refuse(const std::string& instruction, std::string_view reason) {
    for (RefusedLines& other : refused) {
        if (other.instruction == instruction) {
            ++other.lines;
            return;
        }
    }
    refused.push_back({instruction, std::string(reason), 1});
}

MachineEvaluation evaluate_machine_lines(std::istream& in, std::string_view name,
                                         std::vector<const InstructionEngine*> engines, std::size_t max_mismatches) {
    MachineEvaluation evaluation;
    evaluation.engines = std::move(engines);
    std::size_t number = 0;
    for (std::string text; std::getline(in, text);) {
        ++number;
        if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
        if (number == 1 && text.starts_with("{\"macheps_trace\":")) continue;  // the header of a recorded trace
        const std::string where = fmt::format("{}:{}", name, number);
        const Json line = parse_line_object(text, where);
        if (const std::string integer = integer_instruction(line, where); !integer.empty()) {
            evaluation.refuse(integer, "an integer unit, which is not emulated");
        } else if (const auto conversion = parse_conversion_line(line, where)) {
            evaluation.add(number, *conversion, max_mismatches);
        } else {
            evaluation.add(number, machine_line_of(line, where), max_mismatches);
        }
    }
    if (in.bad() || (number == 0 && !in.eof())) {
        throw Error(
            {.what = "cannot read to the end", .where = std::string(name), .fix = "check that the file is readable"});
    }
    return evaluation;
}

}  // namespace macheps::study
