// SPDX-License-Identifier: Apache-2.0
// Compares recorded results of matrix units, one per line, with the emulation. Every engine evaluates every line whose
// instruction it takes.
#pragma once
#include "experiments/study/machine/conversion_line.hpp"
#include "experiments/study/machine/line.hpp"

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// An engine that evaluates a line, possibly in several places of an output. Every result must be right.
struct InstructionEngine {
    std::string_view name;
    std::vector<std::uint64_t> (*run)(const Instruction&, const InstructionOperands&);
    bool (*takes)(const Instruction&);
};

/// Returns the engines of this CPU: `scalar`, which is the definition, then the vector engines.
std::vector<const InstructionEngine*> instruction_engines();

/// A line for which the result of an engine is not in the line, or matches another entry than that of an engine before
/// it.
struct MachineMismatch {
    std::size_t number;  ///< of the line, from 1
    MachineLine line;
    std::string_view engine;
    std::uint64_t result;
};

/// A line with alternatives for which all engines match the same entry.
struct DisputedLine {
    std::size_t number;
    std::string instruction, kind;
    std::string took;  ///< the matched entry: `d`, or the alternative's name
};

/// A line of a conversion whose result differs from that of its codec profile.
struct ConversionMismatch {
    std::size_t number;
    ConversionLine line;
};

/// Lines of an instruction that is not supported, with the reason.
struct RefusedLines {
    std::string instruction, reason;
    std::size_t lines = 0;
};

/// Numbers of lines of one instruction.
struct InstructionCount {
    std::string instruction;
    std::string machine;  ///< or the codec profile of a conversion: `codec x86.vcvtps2ph`
    std::size_t lines = 0, agree = 0, alternative = 0;
    std::vector<std::size_t> ran{}, agreed{};  ///< by engine
};

struct MachineEvaluation {
    std::vector<const InstructionEngine*> engines;
    std::size_t lines = 0, wrong = 0;                       ///< wrong: lines with a mismatch on any engine
    std::vector<MachineMismatch> mismatches;                ///< the first ones
    std::vector<ConversionMismatch> conversion_mismatches;  ///< the first ones
    std::vector<DisputedLine> disputed;
    std::vector<InstructionCount> counts;
    std::vector<RefusedLines> refused;  ///< not counted in `lines`

    /// Runs the line on every engine that takes its instruction. At most `most` mismatches are kept.
    void add(std::size_t number, const MachineLine& line, std::size_t most);
    /// Compares the line with the result of its codec profile. Conversions have one engine, the definition.
    void add(std::size_t number, const ConversionLine& line, std::size_t most);
    void refuse(const std::string& instruction, std::string_view reason);

  private:
    InstructionCount& count_of(const std::string& instruction, const std::string& machine);
};

/// Compares every line of `in`: matrix instructions, conversions, and instructions of integer units, which are refused
/// by name. Empty lines and the header of a trace are skipped. `name` is the name of the file in errors. Errors: throws
/// Error (bad_input) for a line that cannot be read, and if reading stops before the end.
MachineEvaluation evaluate_machine_lines(std::istream& in, std::string_view name,
                                         std::vector<const InstructionEngine*> engines, std::size_t max_mismatches);

}  // namespace macheps::study
