// SPDX-License-Identifier: Apache-2.0
// Derives the parameters of an instruction from its name. The qualifier, such as m16n8k16.f32.f16.f16.f32, gives the
// shape and the types. A few rules depend on the generation of the GPU. oracle.hpp lists the sources.
#include "tests/machine/oracle.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace macheps::machine_oracle {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view text, char separator) {
    Words words(1);
    for (const char letter : text)
        if (letter == separator)
            words.emplace_back();
        else
            words.back() += letter;
    return words;
}

[[noreturn]] void refuse(const Instruction& in, const std::string& why) {
    throw std::invalid_argument("machine oracle: " + in.arch + " " + in.instr + " " + in.qual + ": " + why);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}
bool is_fp8(const Type& type) { return is_one_of(type.name, {"e4m3", "e5m2"}); }
bool is_narrow(const Type& type) { return is_fp8(type) || is_one_of(type.name, {"e3m2", "e2m3", "e2m1"}); }
bool is_16_bit(const Type& type) { return is_one_of(type.name, {"f16", "bf16"}); }

/// Returns K of `m16n8k32` or `16x16x32`: the digits at the end.
int last_number(const std::string& shape) {
    const auto digits = shape.find_last_not_of("0123456789") + 1;
    return std::atoi(shape.c_str() + digits);
}

/// Returns F, the number of fraction bits that are kept in sums of products of 16-bit operands. F also determines the
/// exponent of a zero term.
int fp16_fraction_bits(int sm) { return sm == 70 ? 23 : sm < 90 ? 24 : 25; }

void set_output(Instruction& in) {
    in.rounding = in.d.name == "f16" ? Rounding::nearest_even : Rounding::toward_zero;
    in.precision = in.d.precision;
}

void set_scaled(Instruction& in, int sm, const std::string& blocks) {
    if (sm < 100) refuse(in, "only sm_100 and later have block scales");
    set_output(in);
    if (in.products == 32) {
        if (in.scale.name != "ue8m0" || blocks != "block32" || !is_narrow(in.a) || !is_narrow(in.b))
            refuse(in, "K = 32 needs one ue8m0 scale per 32 products");
        in.step = 32;
        in.fraction_bits = 25;
        in.zero_exponent = -133;
    } else {
        if (in.products != 64 || in.a.name != "e2m1" || in.b.name != "e2m1") refuse(in, "K = 64 of e2m1 expected");
        in.model = Model::grouped;
        in.step = 64;
        in.fraction_bits = 35;
        in.zero_exponent = -139;
    }
    in.scales = in.products / last_number(blocks);
}

void set_nvidia(Instruction& in) {
    const int sm = std::atoi(in.arch.c_str() + 3), f0 = fp16_fraction_bits(sm);
    const bool is_mma = in.instr == "mma" || in.instr == "mma.block_scale",
               is_tcgen05 = in.instr.rfind("tcgen05.", 0) == 0;
    if (sm < 70 || (!is_mma && !is_tcgen05 && in.instr != "wgmma")) refuse(in, "no such instruction");
    if (in.instr == "wgmma" && sm != 90) refuse(in, "only sm_90 has wgmma");
    if (is_tcgen05 && (sm < 100 || sm >= 120)) refuse(in, "only sm_100 to sm_119 have tcgen05");

    Words words = split(in.qual, '.');
    in.products = last_number(words[0]);
    words.erase(words.begin());
    std::string blocks;
    if (!words.empty() && words[0].rfind("block", 0) == 0) {
        blocks = words[0];
        in.scale = find_type(words.back());
        words.erase(words.begin());
        words.pop_back();
    }
    if (!words.empty() && words.back() == "satfinite") {
        in.saturates = true;
        words.pop_back();
    }
    if (words.size() != (is_mma ? 4u : 3u)) refuse(in, "types d, a, b (and c for mma) expected");
    in.d = find_type(words[0]);
    in.a = find_type(words[1]);
    in.b = find_type(words[2]);
    in.c = is_mma ? find_type(words[3]) : in.d;
    if (!blocks.empty()) return set_scaled(in, sm, blocks);

    if (in.d.name == "s32") {
        in.model = Model::integer;
        in.step = in.products;
        return;
    }
    if (in.d.name == "f64") {
        in.model = Model::fma_chain;
        in.step = in.products;
        in.precision = in.d.precision;
        in.canonical_nan = false;
        return;
    }
    set_output(in);
    in.fraction_bits = f0;
    // If C is not fp16, the exponent of a zero term is -108 - F. If C is fp16, the exponent is 4 - F, or -133 for
    // tcgen05. In these formulas, F is always the number of fraction bits for 16-bit operands, even if the operands
    // have other types.
    in.zero_exponent = in.c.name != "f16" ? -108 - f0 : is_tcgen05 ? -133 : 4 - f0;
    int widest = 0;
    if (is_16_bit(in.a) && in.a.name == in.b.name) {
        widest = sm == 70 ? 4 : sm < 90 ? 8 : 16;
    } else if (in.a.name == "tf32" && in.b.name == "tf32" && sm >= 80) {
        widest = sm < 90 ? 4 : 8;
    } else if (is_fp8(in.a) && is_fp8(in.b) && is_mma && sm >= 90 && sm < 120) {
        in.model = Model::emulated_fp8;
        in.step = in.products;
        return;
    } else if (is_fp8(in.a) && is_fp8(in.b) && (sm == 89 || in.instr == "wgmma")) {
        widest = sm == 89 ? 16 : 32;
        in.fraction_bits = 13;
        if (in.d.name == "f32") in.precision = 14;
    } else if (is_narrow(in.a) && is_narrow(in.b) && sm >= 100) {
        widest = 32;
    } else {
        refuse(in, "the instruction does not support these types");
    }
    in.step = std::min(widest, in.products);
}

void set_amd(Instruction& in) {
    const int generation = in.arch.back() - '0';
    if (in.instr != "mfma" || generation < 1 || generation > 3) refuse(in, "CDNA1 to CDNA3 have mfma");
    // Examples: f32_16x16x16bf16_1k, f32_32x32x8_bf16, f32_32x32x4_2b_f16, f32_16x16x32_fp8_bf8.
    Words words = split(in.qual, '_');
    if (words.size() < 2) refuse(in, "d_MxNxK and types expected");
    const auto shape_end = words[1].find_last_not_of("0123456789x", std::string::npos) == std::string::npos
                               ? words[1].size()
                               : words[1].find_first_not_of("0123456789x");
    const std::string shape = words[1].substr(0, shape_end), glued = words[1].substr(shape_end);
    in.products = last_number(shape);
    in.d = in.c = find_type(words[0]);
    words.erase(words.begin(), words.begin() + 2);
    if (!words.empty() && (words[0].back() == 'b' || words[0].back() == 'B')) words.erase(words.begin());
    if (!glued.empty()) words.insert(words.begin(), glued);
    const bool is_1k = !words.empty() && words.back() == "1k";
    if (is_1k) words.pop_back();
    if (words.empty() || words.size() > 2) refuse(in, "one or two types expected");
    in.a = find_type(words[0]);
    in.b = find_type(words.back());
    in.precision = in.d.precision;
    in.canonical_nan = false;

    int widest = 0;
    if (in.a.name == in.d.name) {
        if (in.a.name == "f64" && generation == 1) refuse(in, "only CDNA2 and later have f64");
        in.model = Model::fma_chain;
        widest = in.products;
    } else if (is_16_bit(in.a) && generation == 1) {
        in.model = Model::exact;
        widest = in.a.name == "f16" ? 4 : 2;
    } else if (is_16_bit(in.a) && generation == 2) {
        in.model = Model::pairwise;
        widest = in.a.name == "f16" || is_1k ? 4 : 2;
    } else if (generation == 3 && (is_16_bit(in.a) || in.a.name == "xf32")) {
        in.model = Model::truncated;
        in.fraction_bits = 24;
        widest = in.a.name == "xf32" ? 4 : 8;
    } else if (generation == 3 && in.a.specials == Specials::fnuz) {
        in.model = Model::truncated_fp8;
        in.fraction_bits = 24;
        widest = 16;
    } else {
        refuse(in, "the instruction does not support these types");
    }
    in.zero_exponent = -126;
    in.step = std::min(widest, in.products);
}

}  // namespace

Instruction find_instruction(std::string_view arch, std::string_view instr, std::string_view qual) {
    Instruction in;
    in.arch = arch;
    in.instr = instr;
    in.qual = qual;
    if (arch.rfind("sm_", 0) == 0)
        set_nvidia(in);
    else if (arch.rfind("CDNA", 0) == 0)
        set_amd(in);
    else
        refuse(in, "no such architecture");
    if (in.products < 1 || in.step < 1 || in.products % in.step != 0) refuse(in, "no such shape");
    return in;
}

std::vector<Instruction> all_instructions() {
    std::vector<Instruction> all;
    const auto add = [&all](std::initializer_list<const char*> archs, const char* instr,
                            std::initializer_list<const char*> quals) {
        for (const char* arch : archs)
            for (const char* qual : quals) all.push_back(find_instruction(arch, instr, qual));
    };
    add({"sm_70"}, "mma",
        {"m8n8k4.f32.f16.f16.f32", "m8n8k4.f16.f16.f16.f16", "m8n8k4.f32.f16.f16.f16", "m8n8k4.f16.f16.f16.f32"});
    add({"sm_75"}, "mma", {"m16n8k8.f32.f16.f16.f32", "m16n8k8.f16.f16.f16.f16"});
    const auto ampere = {"m16n8k16.f32.f16.f16.f32",  "m16n8k8.f32.f16.f16.f32",    "m16n8k16.f16.f16.f16.f16",
                         "m16n8k8.f16.f16.f16.f16",   "m16n8k16.f32.bf16.bf16.f32", "m16n8k8.f32.bf16.bf16.f32",
                         "m16n8k8.f32.tf32.tf32.f32", "m16n8k4.f32.tf32.tf32.f32",  "m8n8k4.f64.f64.f64.f64"};
    add({"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}, "mma", ampere);
    add({"sm_90", "sm_100", "sm_120"}, "mma",
        {"m16n8k4.f64.f64.f64.f64", "m16n8k8.f64.f64.f64.f64", "m16n8k16.f64.f64.f64.f64"});
    add({"sm_80", "sm_90"}, "mma",
        {"m16n8k32.s32.s8.s8.s32", "m16n8k32.s32.u8.s8.s32.satfinite", "m16n8k64.s32.s4.u4.s32"});
    for (const char* d : {"f32", "f16"})
        for (const char* a : {"e4m3", "e5m2"})
            for (const char* b : {"e4m3", "e5m2"}) {
                const std::string types = std::string(".") + d + "." + a + "." + b, mma = types + "." + d;
                add({"sm_89", "sm_90", "sm_100"}, "mma", {("m16n8k32" + mma).c_str(), ("m16n8k16" + mma).c_str()});
                add({"sm_90"}, "wgmma", {("m64n8k32" + types).c_str()});
            }
    add({"sm_90"}, "wgmma",
        {"m64n8k16.f32.f16.f16", "m64n8k16.f16.f16.f16", "m64n8k16.f32.bf16.bf16", "m64n8k8.f32.tf32.tf32"});
    add({"sm_100"}, "tcgen05.f16", {"m64n8k16.f32.f16.f16", "m64n8k16.f16.f16.f16", "m64n8k16.f32.bf16.bf16"});
    add({"sm_100"}, "tcgen05.tf32", {"m64n8k8.f32.tf32.tf32"});
    for (const char* a : {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"})
        for (const char* b : {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"}) {
            const std::string types = std::string(".") + a + "." + b;
            for (const char* d : {".f32", ".f16"}) {
                add({"sm_100"}, "tcgen05.f8f6f4", {("m64n8k32" + (d + types)).c_str()});
                add({"sm_120"}, "mma", {("m16n8k32" + (d + types) + d).c_str()});
            }
            add({"sm_100"}, "tcgen05.mxf8f6f4", {("m128n8k32.block32.f32" + types + ".ue8m0").c_str()});
            add({"sm_120"}, "mma.block_scale", {("m16n8k32.block32.f32" + types + ".f32.ue8m0").c_str()});
        }
    add({"sm_100"}, "tcgen05.mxf4", {"m128n8k64.block32.f32.e2m1.e2m1.ue8m0"});
    add({"sm_100"}, "tcgen05.mxf4nvf4",
        {"m128n8k64.block16.f32.e2m1.e2m1.ue4m3", "m128n8k64.block32.f32.e2m1.e2m1.ue8m0"});
    add({"sm_120"}, "mma.block_scale",
        {"m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3", "m16n8k64.block32.f32.e2m1.e2m1.f32.ue8m0"});
    add({"CDNA1"}, "mfma",
        {"f32_32x32x4f16", "f32_32x32x8f16", "f32_16x16x16f16", "f32_32x32x2bf16", "f32_32x32x4bf16",
         "f32_16x16x8bf16"});
    add({"CDNA2"}, "mfma",
        {"f32_32x32x4f16", "f32_32x32x8f16", "f32_16x16x16f16", "f32_32x32x2bf16", "f32_32x32x4bf16", "f32_16x16x8bf16",
         "f32_32x32x4bf16_1k", "f32_32x32x8bf16_1k", "f32_16x16x16bf16_1k", "f64_16x16x4f64", "f64_4x4x4f64"});
    add({"CDNA3"}, "mfma",
        {"f32_32x32x4_xf32", "f32_16x16x8_xf32", "f32_32x32x4_2b_f16", "f32_32x32x8_f16", "f32_16x16x16_f16",
         "f32_32x32x4_2b_bf16", "f32_32x32x8_bf16", "f32_16x16x16_bf16", "f64_16x16x4_f64"});
    for (const char* a : {"fp8", "bf8"})
        for (const char* b : {"fp8", "bf8"})
            for (const char* shape : {"f32_16x16x32_", "f32_32x32x16_"})
                add({"CDNA3"}, "mfma", {(std::string(shape) + a + "_" + b).c_str()});
    add({"CDNA1", "CDNA2", "CDNA3"}, "mfma", {"f32_32x32x1f32", "f32_32x32x2f32", "f32_16x16x4f32"});
    return all;
}

}  // namespace macheps::machine_oracle
