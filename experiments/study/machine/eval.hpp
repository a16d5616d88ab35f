// SPDX-License-Identifier: Apache-2.0
// Recorded results of matrix units, many lines of them, against the emulation: every engine evaluates every line.
#pragma once
#include "experiments/study/machine/conversion_line.hpp"
#include "experiments/study/machine/line.hpp"

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// Evaluates a line, perhaps in several places of an output: every result must be right.
struct InstructionEngine {
    std::string_view name;
    std::vector<std::uint64_t> (*run)(const Instruction&, const InstructionOperands&);
    bool (*takes)(const Instruction&);
};

/// Those of this CPU: `scalar`, the definition, then the vector engines.
std::vector<const InstructionEngine*> instruction_engines();

/// A line for which an engine gives a result that the line does not name, or another one than an engine before it.
struct MachineMismatch {
    std::size_t number;  ///< of the line, from 1
    MachineLine line;
    std::string_view engine;
    std::uint64_t result;
};

/// A line with alternatives that all engines agree on.
struct DisputedLine {
    std::size_t number;
    std::string instruction, kind;
    std::string took;  ///< `d`, or the alternative's name
};

/// A line of a conversion whose result is not its codec profile's.
struct ConversionMismatch {
    std::size_t number;
    ConversionLine line;
};

/// Lines that nothing here computes, said aloud.
struct RefusedLines {
    std::string instruction, reason;
    std::size_t lines = 0;
};

/// How the lines of one instruction fared.
struct InstructionCount {
    std::string instruction;
    std::string machine;  ///< or the codec profile of a conversion: `codec x86.vcvtps2ph`
    std::size_t lines = 0, agree = 0, alternative = 0;
    std::vector<std::size_t> ran{}, agreed{};  ///< by engine
};

struct MachineEvaluation {
    std::vector<const InstructionEngine*> engines;
    std::size_t lines = 0, wrong = 0;                       ///< wrong: lines with a mismatch on any engine
    std::vector<MachineMismatch> mismatches;                ///< the first of them
    std::vector<ConversionMismatch> conversion_mismatches;  ///< the first of them too
    std::vector<DisputedLine> disputed;
    std::vector<InstructionCount> counts;
    std::vector<RefusedLines> refused;  ///< not among `lines`

    /// Runs the line on every engine that takes its instruction. At most `most` mismatches are kept.
    void add(std::size_t number, const MachineLine& line, std::size_t most);
    /// Compares with what the codec profile gives; there is one engine of codecs, the definition.
    void add(std::size_t number, const ConversionLine& line, std::size_t most);
    void refuse(const std::string& instruction, std::string_view reason);

  private:
    InstructionCount& count_of(const std::string& instruction, const std::string& machine);
};

/// Every line of `in`: matrix instructions, conversions, and integer units, which are refused by name; empty ones and the header of a trace are passed over. `name` is the file's, for errors.
/// Errors: throws Error (bad_input) at a line that cannot be read, and where reading stops before the end.
MachineEvaluation evaluate_machine_lines(std::istream& in, std::string_view name,
                                         std::vector<const InstructionEngine*> engines, std::size_t most_mismatches);

}  // namespace macheps::study
