// SPDX-License-Identifier: Apache-2.0
// One output of a matrix instruction, as stored in a trace. Host only. This header does not use fmt, so that .cu files
// can include it.
#pragma once
#include "core/format.hpp"

#include <functional>
#include <string>
#include <vector>

namespace macheps::evidence {

/// Codes of the operands and the result of d = a . b + c. a and b have k elements each.
struct TraceRow {
    std::string cls;  ///< class of the operands
    std::vector<std::uint64_t> a{}, b{};
    std::uint64_t c = 0, d = 0;

    bool operator==(const TraceRow&) const = default;
};

/// The three names by which find_instruction finds an instruction, and the formats of its codes.
struct TraceForm {
    std::string arch{}, instr{}, qual{};
    Format a{}, b{}, c{};
    bool any_nan = false;  ///< the bits of a NaN result are not specified; a NaN is written as "nan"
};

/// Returns the code in lowercase hexadecimal, with as many digits as the container has.
inline std::string hex_digits(const Format& format, std::uint64_t code) {
    std::string text;
    for (int at = (format.container_bits() + 3) / 4 - 1; at >= 0; --at) text += "0123456789abcdef"[code >> 4 * at & 15];
    return text;
}

/// Returns the row as an input line of `macheps machine eval`, without the newline.
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

/// Results of a device for one form of an instruction. The rows of a trace are chosen from them.
struct Candidates {
    TraceForm form;
    std::string machine, sass;  ///< name of the model, and the expected machine instruction
    std::uint64_t seed = 0;
    std::vector<TraceRow> rows;
};
using CandidateSink = std::function<void(const Candidates&)>;

}  // namespace macheps::evidence
