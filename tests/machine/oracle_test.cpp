// SPDX-License-Identifier: Apache-2.0
// Compares the oracle of matrix units with published vectors, captures from hardware, worked examples and probes.
#include "tests/machine/oracle.hpp"

#include "tests/machine/vectors.hpp"
#include "tests/test.hpp"

#include <cstdio>
#include <cstring>

namespace oracle_test {

using namespace macheps::machine_oracle;

namespace {

using Codes = std::vector<std::uint64_t>;

/// Returns d for operands that begin with `a` and `b`. The remaining operands are zero.
std::uint64_t padded(const Instruction& in, Codes a, Codes b, std::uint64_t c, Mutation mutation = Mutation::none) {
    const auto n = static_cast<std::size_t>(in.products);
    a.resize(n, 0);
    b.resize(n, 0);
    return evaluate(in, a, b, c, {}, {}, mutation);
}

bool agrees(const Instruction& in, const Vector& v, std::uint64_t d) {
    const Number x = decode(in.d, d);
    if (v.any_nan) return x.kind == Kind::nan;
    if (v.any_zero) return x.is_zero();
    return same_result(in, d, v.d);
}

bool agrees_with_another_source(const Vector& v, std::uint64_t d) {
    for (const auto& [name, other] : v.alt)
        if (d == other) return true;
    return false;
}

void print_wrong(const char* file, const Vector& v, std::uint64_t d) {
    std::printf("%s:%d: %s %s %s (%s): oracle %llx, expected %llx\n", file, v.line, v.arch.c_str(), v.instr.c_str(),
                v.qual.c_str(), v.cls.c_str(), static_cast<unsigned long long>(d),
                static_cast<unsigned long long>(v.d));
}

}  // namespace

TEST_CASE("the oracle gives the bits of every shared vector and of every capture from hardware", "[machine][oracle]") {
    const auto folder = macheps::test::shared_folder();
    if (folder.empty()) SKIP_TEST("no folder of shared vectors");
    struct File {
        const char* name;
        std::size_t lines;
        int disputed;
    };
    for (const File& file : {File{"tc_vectors_public.jsonl", 1972, 12}, File{"tc_hw_captures.jsonl", 1980, 0}}) {
        const auto vectors = read_vectors(folder / "vectors" / file.name);
        int wrong = 0, disputed = 0, chosen = 0;
        for (const Vector& v : vectors) {
            const Instruction in = find_instruction(v.arch, v.instr, v.qual);
            const std::uint64_t d = evaluate(in, v.a, v.b, v.c, v.sa, v.sb);
            disputed += !v.alt.empty();
            chosen += !v.alt.empty() && agrees(in, v, d);
            if (agrees(in, v, d) || agrees_with_another_source(v, d)) continue;
            if (++wrong <= 10) print_wrong(file.name, v, d);
        }
        std::printf("%s: %zu lines, %d wrong, %d disputed, of which %d agree with the sources we follow\n", file.name,
                    vectors.size(), wrong, disputed, chosen);
        CHECK(wrong == 0);
        CHECK(vectors.size() >= file.lines);
        CHECK(disputed >= file.disputed);
    }
}

TEST_CASE("if published sources differ, the oracle can give the bits of each of them", "[machine][oracle]") {
    const auto folder = macheps::test::shared_folder();
    if (folder.empty()) SKIP_TEST("no folder of shared vectors");
    for (const Vector& v : read_vectors(folder / "vectors" / "tc_vectors_public.jsonl"))
        for (const auto& [name, other] : v.alt) {
            if (name == "both") continue;
            CAPTURE(v.line, name);
            const Instruction in = find_instruction(v.arch, v.instr, v.qual);
            // The sources differ in two points: the exponent of zeros (`zero_m126`) and the sign of a sum that
            // underflows. To give the bits of the other source, the oracle needs a mutation only for the exponent. In
            // the sign, it follows the other source anyway, because an H100 agrees with that source.
            const Mutation mutation = name == "zero_m126" ? Mutation::zero_reads_m126 : Mutation::none;
            CHECK(evaluate(in, v.a, v.b, v.c, v.sa, v.sb, mutation) == other);
        }
}

TEST_CASE("the oracle gives the bits of the worked examples", "[machine][oracle]") {
    const Instruction fp8 = find_instruction("sm_90", "wgmma", "m64n8k32.f32.e4m3.e4m3");
    CHECK(padded(fp8, {0x3c, 0xb9}, {0x3c, 0x19}, 0x42c80080) == 0x42cc5800);
    CHECK(padded(fp8, {0x3c, 0xb9}, {0x3c, 0x19}, 0x42c80080, Mutation::floor_terms) == 0x42cc5400);
    CHECK(padded(fp8, {0x29}, {0x38}, 0x42fffc00) == 0x43004400);  // the carry into the next binade costs a bit
    CHECK(padded(fp8, {0x29}, {0x38}, 0x42fffc00, Mutation::full_output) == 0x43004600);

    const Instruction fp16 = find_instruction("sm_90", "mma", "m16n8k16.f32.f16.f16.f32");
    CHECK(padded(fp16, {0x3e00, 0x3c00, 0xbc00}, {0x3e00, 0x0010, 0x0003}, 0x33a00000) == 0x40100003);
    CHECK(padded(fp16, {0x3e00, 0x3c00, 0xbc00}, {0x3e00, 0x0010, 0x0003}, 0x33a00000, Mutation::nearest_output) ==
          0x40100004);
    CHECK(padded(fp16, {0x0001, 0x1000}, {0x7800, 0x0400}, 0) == 0x3b000000);  // a subnormal has the exponent emin
    CHECK(padded(fp16, {0x0001, 0x1000}, {0x7800, 0x0400}, 0, Mutation::product_renormalised) == 0x3b000080);

    Instruction chain = fp8;
    std::uint64_t c = 0;
    const Codes sixteenths(32, 0x18);
    for (int i = 0; i < 600; ++i) {
        c = evaluate(chain, sixteenths, sixteenths, c);
        if (i == 510) CHECK(c == 0x427f8000);
        if (i >= 511) REQUIRE(c == 0x42800000);  // the accumulator stops at 64
    }
}

TEST_CASE("the sum 2^23 - 2^23 - 0.5 - 0.25 - 0.125 distinguishes the generations of GPUs", "[machine][oracle]") {
    // The operands are a = -2^13, -.5, -.25, -.125; b = 2^10, 1, 1, 1; C = 2^23. Tests them in fp16 and bf16.
    const Codes a16{0xf000, 0xb800, 0xb400, 0xb000}, b16{0x6400, 0x3c00, 0x3c00, 0x3c00};
    const Codes abf{0xc600, 0xbf00, 0xbe80, 0xbe00}, bbf{0x4480, 0x3f80, 0x3f80, 0x3f80};
    struct Row {
        const char *arch, *instr, *qual;
        const Codes &a, &b;
        std::uint64_t d;
    };
    const std::vector<Row> rows{
        {"sm_70", "mma", "m8n8k4.f32.f16.f16.f32", a16, b16, 0},
        {"sm_75", "mma", "m16n8k8.f32.f16.f16.f32", a16, b16, 0xbf000000},
        {"sm_80", "mma", "m16n8k16.f32.f16.f16.f32", a16, b16, 0xbf000000},
        {"sm_86", "mma", "m16n8k16.f32.bf16.bf16.f32", abf, bbf, 0xbf000000},
        {"sm_89", "mma", "m16n8k16.f32.f16.f16.f32", a16, b16, 0xbf000000},
        {"sm_90", "mma", "m16n8k16.f32.f16.f16.f32", a16, b16, 0xbf400000},
        {"sm_90", "wgmma", "m64n8k16.f32.bf16.bf16", abf, bbf, 0xbf400000},
        {"sm_100", "tcgen05.f16", "m64n8k16.f32.f16.f16", a16, b16, 0xbf400000},
        {"sm_120", "mma", "m16n8k16.f32.f16.f16.f32", a16, b16, 0xbf400000},
        {"CDNA1", "mfma", "f32_32x32x8f16", a16, b16, 0xbf600000},
        {"CDNA2", "mfma", "f32_16x16x16f16", a16, b16, 0},
        {"CDNA2", "mfma", "f32_32x32x4bf16", abf, bbf, 0xbec00000},
        {"CDNA3", "mfma", "f32_16x16x16_f16", a16, b16, 0xbf000000},
    };
    for (const Row& row : rows) {
        CAPTURE(row.arch, row.qual);
        CHECK(padded(find_instruction(row.arch, row.instr, row.qual), row.a, row.b, 0x4b000000) == row.d);
    }
    // The same operands in e5m2. With F = 13, the small terms are cut off.
    const Instruction fp8 = find_instruction("sm_90", "wgmma", "m64n8k32.f32.e5m2.e5m2");
    CHECK(padded(fp8, {0xf0, 0xb8, 0xb4, 0xb0}, {0x64, 0x3c, 0x3c, 0x3c}, 0x4b000000) == 0);
    const Instruction f64 = find_instruction("sm_90", "mma", "m16n8k4.f64.f64.f64.f64");
    const auto bits = [](double x) {
        std::uint64_t u;
        std::memcpy(&u, &x, sizeof u);
        return u;
    };
    CHECK(padded(f64, {bits(-0x1p13), bits(-.5), bits(-.25), bits(-.125)}, {bits(0x1p10), bits(1), bits(1), bits(1)},
                 bits(0x1p23)) == bits(-.875));
}

TEST_CASE("for the probes of open questions, the oracle agrees with the published sources that macheps follows",
          "[machine][oracle]") {
    const Instruction bf16 = find_instruction("sm_90", "mma", "m16n8k16.f32.bf16.bf16.f32");
    CHECK(padded(bf16, {0, 0x3f80}, {0x7f00, 0x3080}, 0) == 0x30800000);
    CHECK(padded(bf16, {0, 0x3f80}, {0x7f00, 0x3080}, 0, Mutation::zero_reads_emin) == 0);
    CHECK(padded(bf16, Codes(16, 0x1980), Codes(16, 0x1980), 0) == 2);
    const auto bf16_power = [](int e) { return static_cast<std::uint64_t>(e + 127) << 7; };
    for (const auto& [t, d] : {std::pair{156, 0}, {157, 0}, {158, 0}, {159, 1}}) {
        CAPTURE(t);
        CHECK(padded(bf16, {0x3400, 0x8000 | bf16_power(126 - t)}, {0x0080, 0x0080}, 0) ==
              static_cast<std::uint64_t>(d));
    }
    const auto f16_of = [](int e) {
        return e >= -14 ? static_cast<std::uint64_t>(e + 15) << 10 : std::uint64_t{1} << (e + 24);
    };
    const Instruction mma = find_instruction("sm_90", "mma", "m16n8k16.f16.f16.f16.f16");
    const Instruction wgmma = find_instruction("sm_90", "wgmma", "m64n8k16.f16.f16.f16");
    for (int t = 40; t <= 48; ++t) {
        CAPTURE(t);
        CHECK(padded(mma, {0x1000, f16_of(24 - t)}, {0x0400, 0x0001}, 0) == (t <= 46 ? 1 : 0));
        CHECK(padded(wgmma, {0x1000, f16_of(24 - t)}, {0x0400, 0x0001}, 0) == (t <= 46 ? 1 : 0));  // an H100 agrees
    }
    CHECK(padded(mma, {0x1000, 0x0010}, {0x0400, 0x0008}, 0x0002) == 0x0002);

    const Instruction tf32 = find_instruction("sm_90", "mma", "m16n8k8.f32.tf32.tf32.f32");
    CHECK(padded(bf16, Codes(16, 0x8000), Codes(16, 0x3f80), 0x80000000) == 0);
    CHECK(padded(bf16, {0x8000 | bf16_power(-75)}, {bf16_power(-76)}, 0) == 0);  // an H100 agrees
    CHECK(padded(bf16, {0x8000 | bf16_power(-75)}, {bf16_power(-76)}, 0, Mutation::underflow_minus_zero) == 0x80000000);
    CHECK(padded(tf32, {0x7f800001}, {0x3f800000}, 0) == 0x7f800000);  // the unit does not read this NaN's payload

    const Instruction fp8 = find_instruction("sm_90", "wgmma", "m64n8k32.f32.e4m3.e4m3");
    CHECK(padded(fp8, {}, {}, 0x3fffffff) == 0x3ffffc00);
    CHECK(padded(fp8, {}, {}, 0x80000000) == 0);
    CHECK(padded(fp8, {}, {}, 0xff800000) == 0xff800000);
    CHECK(padded(fp8, {}, {}, 0x7fc00001) == 0x7fffffff);
}

TEST_CASE("instructions that do not exist are refused", "[machine][oracle]") {
    struct Row {
        const char *arch, *instr, *qual;
    };
    for (const Row& row :
         {Row{"sm_80", "wgmma", "m64n8k16.f32.f16.f16"}, Row{"sm_80", "mma", "m16n8k32.f32.e4m3.e4m3.f32"},
          Row{"sm_75", "mma", "m16n8k8.f32.tf32.tf32.f32"}, Row{"CDNA1", "mfma", "f64_16x16x4f64"},
          Row{"CDNA2", "mfma", "f32_16x16x32_fp8_fp8"}, Row{"CDNA4", "mfma", "f32_16x16x16_f16"},
          Row{"sm_90", "mma", "m16n8k16.f32.f16.f16"}, Row{"sm_90", "mma", "m16n8k16.f32.e9m9.f16.f32"},
          Row{"sm_90", "mma.block_scale", "m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3"}}) {
        CAPTURE(row.arch, row.qual);
        CHECK_THROWS_AS(find_instruction(row.arch, row.instr, row.qual), std::invalid_argument);
    }
}

}  // namespace oracle_test
