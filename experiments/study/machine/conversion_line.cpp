// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/machine/conversion_line.hpp"

#include "core/error.hpp"
#include "core/profile_table.hpp"
#include "experiments/study/machine/line.hpp"

#include <fmt/format.h>

namespace macheps::study {

namespace {

struct ConversionForm {
    std::string_view arch, instr, qual, profile;
    Format from, to;
    Round round = Round::nearest_even;
};
constexpr ConversionForm conversion_forms[] = {
    {"x86", "vcvtneps2bf16", "k1.bf16.f32", "x86.vcvtneps2bf16", fp32, bf16},
    {"x86", "vcvtps2ph", "k1.f16.f32.rne", "x86.vcvtps2ph", fp32, fp16},
    {"x86", "vcvtps2ph", "k1.f16.f32.down", "x86.vcvtps2ph", fp32, fp16, Round::down},
    {"x86", "vcvtps2ph", "k1.f16.f32.up", "x86.vcvtps2ph", fp32, fp16, Round::up},
    {"x86", "vcvtps2ph", "k1.f16.f32.zero", "x86.vcvtps2ph", fp32, fp16, Round::toward_zero},
    {"arm", "bfcvtn", "k1.bf16.f32", "arm.bfcvtn", fp32, bf16},
};

}  // namespace

std::optional<ConversionLine> parse_conversion_line(const Json& line, std::string_view where) {
    const std::string arch = line_text(line, "arch", where), instr = line_text(line, "instr", where),
                      qual = line_text(line, "qual", where);
    const ConversionForm* form = nullptr;
    std::string forms;
    for (const ConversionForm& known : conversion_forms) {
        if (known.arch != arch || known.instr != instr) continue;
        forms += (forms.empty() ? "" : ", ") + std::string(known.qual);
        if (known.qual == qual) form = &known;
    }
    if (forms.empty()) return std::nullopt;
    if (form == nullptr) {
        throw Error({.what = fmt::format("{} {} has no form '{}'", arch, instr, qual),
                     .where = std::string(where),
                     .fix = "use " + forms});
    }
    const Json* list = line.find("a");
    const Json* d = line.find("d");
    const bool has_code = list != nullptr && list->is_array() && list->size() == 1;
    if (!has_code || d == nullptr) {
        throw Error({.what = has_code ? "\"d\" is missing" : "\"a\" is not a list of one code",
                     .where = std::string(where),
                     .fix = "write arch, instr, qual, a and d for a conversion"});
    }
    ConversionLine out{.instruction = fmt::format("{} {} {}", arch, instr, qual),
                       .profile = form->profile,
                       .from = form->from,
                       .to = form->to};
    out.a = line_bits((*list)[0], form->from, "a[0]", where);
    out.d = line_bits(*d, form->to, "d", where);
    const auto x = bit_cast<float>(static_cast<std::uint32_t>(out.a));
    out.result = encode64(profile_named(form->profile), form->to, x, form->round);
    return out;
}

std::string integer_instruction(const Json& line, std::string_view where) {
    const std::string qual = line_text(line, "qual", where);
    if (qual.find(".s32.") == std::string::npos) return {};
    return fmt::format("{} {} {}", line_text(line, "arch", where), line_text(line, "instr", where), qual);
}

}  // namespace macheps::study
