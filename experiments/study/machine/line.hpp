// SPDX-License-Identifier: Apache-2.0
// One recorded result of a matrix unit: a line of JSON.
#pragma once
#include "core/text/json.hpp"
#include "emulation/machine/instruction.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// A result that is asked for: bits, any NaN, or a zero of either sign.
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
    std::string kind, status;               ///< `cls` and `status`, empty where the line has none

    /// Whose result it is: `d`, an alternative's name, or nothing.
    std::optional<std::string> matches(std::uint64_t result) const;
};

/// The object that a line holds. Errors: throws Error that names `where`.
Json parse_line_object(std::string_view text, std::string_view where);

/// The text behind a key of a line. Errors: throws Error that names `where` and the key.
std::string line_text(const Json& line, const char* key, std::string_view where);

/// The code behind `value`, which the line calls `name`. Errors: as above.
std::uint64_t line_bits(const Json& value, const Format& format, const std::string& name, std::string_view where);

/// Reads a line: keys arch, instr, qual, a, b, c, d, with block scales sa and sb; cls, status and alt may be there, and
/// others are passed over. Errors: throws Error that names `where`, the key, and what was expected.
MachineLine parse_machine_line(std::string_view text, std::string_view where);
MachineLine machine_line_of(const Json& line, std::string_view where);

}  // namespace macheps::study
