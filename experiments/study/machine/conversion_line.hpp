// SPDX-License-Identifier: Apache-2.0
// One recorded result of a conversion instruction, together with the result that macheps computes for the same operand
// with the codec profile of the instruction.
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

/// Parses the line of a conversion instruction. Returns nothing if the line has another instruction. The key `qual` is
/// `k1.D.A`, where D is the format of d and A is the format of a, such as `k1.bf16.f32`. For vcvtps2ph, the rounding
/// (`rne`, `down`, `up` or `zero`) is added as a fourth part: `k1.f16.f32.rne`. Errors: throws Error that names
/// `where`, the key and the expected value.
std::optional<ConversionLine> parse_conversion_line(const Json& line, std::string_view where);

/// Returns the text `arch instr qual` if the instruction of the line adds integers, which no machine emulates. Returns
/// an empty text for other lines.
std::string integer_instruction(const Json& line, std::string_view where);

}  // namespace macheps::study
