// SPDX-License-Identifier: Apache-2.0
// Compares recorded results of matrix units, one per line, with the emulation. Every engine evaluates every line whose
// instruction it supports.
#pragma once
#include "experiments/study/machine/conversion_line.hpp"
#include "experiments/study/machine/line.hpp"

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// An implementation of the matrix instructions. `run` may return the result at several positions of an output matrix.
/// Every one of these results must be right.
struct InstructionEngine {
    std::string_view name;
    std::vector<std::uint64_t> (*run)(const Instruction&, const InstructionOperands&);
    bool (*takes)(const Instruction&);
};

/// Returns the engines that this CPU supports: first `scalar`, which defines the results, then the vector engines.
std::vector<const InstructionEngine*> instruction_engines();

/// A line and a wrong result of one engine. The result matches no entry of the line, or it matches a different entry
/// than the result of an earlier engine.
struct MachineMismatch {
    std::size_t number;  ///< number of the line, counted from 1
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

/// A line of a conversion whose recorded result differs from the result of the codec profile.
struct ConversionMismatch {
    std::size_t number;
    ConversionLine line;
};

/// An instruction that is not supported, with the reason and the number of its lines.
struct RefusedLines {
    std::string instruction, reason;
    std::size_t lines = 0;
};

/// Numbers of lines of one instruction.
struct InstructionCount {
    std::string instruction;
    std::string machine;  ///< name of the machine; for a conversion the profile: `codec x86.vcvtps2ph`
    std::size_t lines = 0, agree = 0, alternative = 0;
    std::vector<std::size_t> ran{}, agreed{};  ///< for each engine: numbers of lines that it evaluated and that agreed
};

struct MachineEvaluation {
    std::vector<const InstructionEngine*> engines;
    std::size_t lines = 0, wrong = 0;                       ///< wrong: lines with a mismatch on any engine
    std::vector<MachineMismatch> mismatches;                ///< only the first mismatches
    std::vector<ConversionMismatch> conversion_mismatches;  ///< only the first mismatches
    std::vector<DisputedLine> disputed;
    std::vector<InstructionCount> counts;
    std::vector<RefusedLines> refused;  ///< not counted in `lines`

    /// Evaluates the line with every engine that supports its instruction. Keeps at most `most` mismatches.
    void add(std::size_t number, const MachineLine& line, std::size_t most);
    /// Compares the recorded result of a conversion with the result of its codec profile. The comparison counts only
    /// for the engine `scalar`, because the other engines have no conversions.
    void add(std::size_t number, const ConversionLine& line, std::size_t most);
    void refuse(const std::string& instruction, std::string_view reason);

  private:
    InstructionCount& count_of(const std::string& instruction, const std::string& machine);
};

/// Compares every line of `in` with the emulation. A line has a matrix instruction or a conversion. Lines with
/// instructions of integer units are counted as refused. Empty lines and the header of a trace are skipped. `name` is
/// the name of the file in errors. Errors: throws Error (bad_input) for a line that cannot be parsed, and if reading
/// stops before the end.
MachineEvaluation evaluate_machine_lines(std::istream& in, std::string_view name,
                                         std::vector<const InstructionEngine*> engines, std::size_t max_mismatches);

}  // namespace macheps::study
