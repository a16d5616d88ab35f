// SPDX-License-Identifier: Apache-2.0
// One recorded result of a conversion instruction, and the result of its codec profile for the same operand.
#pragma once
#include "core/format.hpp"
#include "core/text/json.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace macheps::study {

struct ConversionLine {
    std::string instruction{};   ///< `x86 vcvtneps2bf16 k1.bf16.f32`
    std::string_view profile{};  ///< `x86.vcvtneps2bf16`
    Format from{}, to{};
    std::uint64_t a = 0, d = 0;
    std::uint64_t result = 0;  ///< result of the profile
};

/// Parses the line of a conversion instruction. Returns nothing if the line has another instruction. `qual` is k1.d.a,
/// for vcvtps2ph followed by the rounding (`rne`, `down`, `up`, `zero`). Errors: throws Error that names `where`, the
/// key, and what was expected.
std::optional<ConversionLine> parse_conversion_line(const Json& line, std::string_view where);

/// Returns `arch instr qual` of a line whose sums are integers, which no machine models. Empty for other lines.
std::string integer_instruction(const Json& line, std::string_view where);

}  // namespace macheps::study
