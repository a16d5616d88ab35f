// SPDX-License-Identifier: Apache-2.0
// Parses one recorded result of a matrix unit, which is a line of JSON.
#pragma once
#include "core/text/json.hpp"
#include "emulation/machine/instruction.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// An expected result: bits, any NaN, or a zero of either sign.
struct ExpectedBits {
    enum class Kind { bits, nan, zero } kind = Kind::bits;
    std::uint64_t bits = 0;

    bool holds(const Format& format, std::uint64_t result) const;
};

struct MachineLine {
    Instruction instruction;
    InstructionOperands operands;
    ExpectedBits d;
    struct Alternative {
        std::string name;
        ExpectedBits d;
    };
    std::vector<Alternative> alternatives;  ///< results that other sources give
    std::string kind, status;               ///< `cls` and `status`; empty if the line has none

    /// Returns the entry that the result matches: `d`, the name of an alternative, or nothing.
    std::optional<std::string> matches(std::uint64_t result) const;
};

/// Parses a line as a JSON object. Errors: throws Error that names `where`.
Json parse_line_object(std::string_view text, std::string_view where);

/// Returns the text of a key of a line. Errors: throws Error that names `where` and the key.
std::string line_text(const Json& line, const char* key, std::string_view where);

/// Parses a number's code in hexadecimal. `name` names the code in errors. Errors: throws Error that names `where`.
std::uint64_t line_bits(const Json& value, const Format& format, const std::string& name, std::string_view where);

/// Read a line, given as text or as a JSON object. The line has the keys arch, instr, qual, a, b, c and d, and with
/// block scales also sa and sb. The keys cls, status and alt are optional, and all other keys are ignored. Errors:
/// throw Error that names `where`, the key and the expected value.
MachineLine parse_machine_line(std::string_view text, std::string_view where);
MachineLine machine_line_of(const Json& line, std::string_view where);

}  // namespace macheps::study
