// SPDX-License-Identifier: Apache-2.0
// One output of a matrix instruction, as stored in a trace. Host only; no fmt, for .cu files.
#pragma once
#include "core/format.hpp"

#include <functional>
#include <string>
#include <vector>

namespace macheps::evidence {

/// Codes of d = a . b + c over the instruction's k products.
struct TraceRow {
    std::string cls;  ///< class of the operands
    std::vector<std::uint64_t> a{}, b{};
    std::uint64_t c = 0, d = 0;

    bool operator==(const TraceRow&) const = default;
};

/// An instruction by the three names that find_instruction takes, and the formats of its codes.
struct TraceForm {
    std::string arch{}, instr{}, qual{};
    Format a{}, b{}, c{};
    bool any_nan = false;  ///< the bits of a NaN result are not defined; it is written as "nan"
};

/// Returns the code in lowercase hexadecimal, with as many digits as the container has.
inline std::string hex_digits(const Format& format, std::uint64_t code) {
    std::string text;
    for (int at = (format.container_bits() + 3) / 4 - 1; at >= 0; --at) text += "0123456789abcdef"[code >> 4 * at & 15];
    return text;
}

/// Returns the row as a line of `macheps machine eval`, without the newline.
inline std::string row_text(const TraceForm& form, const TraceRow& row) {
    const auto list = [](const Format& format, const std::vector<std::uint64_t>& codes) {
        std::string text = "[";
        for (const std::uint64_t code : codes)
            text += (text.size() > 1 ? ",\"" : "\"") + hex_digits(format, code) + '"';
        return text + "]";
    };
    const bool is_nan = (row.d & form.c.magnitude_mask()) > form.c.inf_code();
    return R"({"arch":")" + form.arch + R"(","instr":")" + form.instr + R"(","qual":")" + form.qual + R"(","cls":")" +
           row.cls + R"(","a":)" + list(form.a, row.a) + R"(,"b":)" + list(form.b, row.b) + R"(,"c":")" +
           hex_digits(form.c, row.c) + R"(","d":")" + (form.any_nan && is_nan ? "nan" : hex_digits(form.c, row.d)) +
           "\"}";
}

/// Results of a device for operands of one form, from which the rows of a trace are chosen.
struct Candidates {
    TraceForm form;
    std::string machine, sass;  ///< the model, and the machine code that is expected for the instruction
    std::uint64_t seed = 0;
    std::vector<TraceRow> rows;
};
using CandidateSink = std::function<void(const Candidates&)>;

}  // namespace macheps::evidence
