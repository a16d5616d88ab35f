// SPDX-License-Identifier: Apache-2.0
#include "core/format_table.hpp"
#include "core/profile_table.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace profile_test {

using namespace macheps;

namespace {

constexpr auto rne = Round::nearest_even;

std::uint64_t code_of(const char* profile, const char* format, float x, Round mode = rne) {
    return encode64(profile_named(profile), format_named(format), x, mode);
}

}  // namespace

TEST_CASE("each profile gives the NaN codes of the implementation that it emulates", "[core][profile]") {
    struct Case {
        const char* profile;
        std::uint64_t fp16, bf16, e4m3fn, e5m2, e2m3fn, e2m1fn, e8m0fnu;
    };
    const auto c = GENERATE(values<Case>({
        {"ieee", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x1f, 0x7, 0xff},
        {"cuda_sat", 0x7fff, 0x7fff, 0x7f, 0x7f, 0x1f, 0x7, 0xff},
        {"cuda_nosat", 0x7fff, 0x7fff, 0x7f, 0x7f, 0x1f, 0x7, 0xff},
        {"ptx", 0x7fff, 0x7fff, 0x7f, 0x7f, 0x1f, 0x7, 0xff},
        {"mldtypes", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x20, 0x8, 0xff},
        {"mldtypes_sat", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x20, 0x8, 0xff},
        {"torch_legacy", 0x7e00, 0x7fc0, 0x7f, 0x7f, 0x1f, 0x7, 0xff},
        {"torch_sat", 0x7e00, 0x7fc0, 0x7f, 0x7f, 0x1f, 0x7, 0xff},
        {"onnx.19", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x20, 0x8, 0xff},
        {"onnx.28", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x20, 0x8, 0xff},
        {"onnx.28.nosat", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x20, 0x8, 0xff},
        {"onnx_reference.1.23", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x20, 0x8, 0xff},
    }));
    CAPTURE(c.profile);
    const float nan = bit_cast<float>(0x7fc00000u);
    CHECK(code_of(c.profile, "fp16", nan) == c.fp16);
    CHECK(code_of(c.profile, "bf16", nan) == c.bf16);
    CHECK(code_of(c.profile, "e4m3fn", nan) == c.e4m3fn);
    CHECK(code_of(c.profile, "e5m2", nan) == c.e5m2);
    CHECK(code_of(c.profile, "e2m3fn", nan) == c.e2m3fn);
    CHECK(code_of(c.profile, "e2m1fn", nan) == c.e2m1fn);
    CHECK(code_of(c.profile, "e8m0fnu", nan) == c.e8m0fnu);
    CHECK(code_of(c.profile, "e4m3fnuz", nan) == 0x80);
}

TEST_CASE("each profile keeps or drops the sign of a NaN as the implementation that it emulates does",
          "[core][profile]") {
    struct Case {
        const char* profile;
        std::uint64_t fp16, bf16, e4m3fn, e5m2, e2m3fn, e2m1fn;
    };
    const auto c = GENERATE(values<Case>({
        {"ieee", 0xfe00, 0xffc0, 0xff, 0xfe, 0x1f, 0x7},
        {"cuda_sat", 0x7fff, 0x7fff, 0x7f, 0x7f, 0x1f, 0x7},
        {"ptx", 0x7fff, 0x7fff, 0x7f, 0x7f, 0x1f, 0x7},
        {"mldtypes", 0xfe00, 0xffc0, 0xff, 0xfe, 0x00, 0x0},
        {"torch_legacy", 0xfe00, 0x7fc0, 0xff, 0xff, 0x1f, 0x7},
        {"onnx.24.nosat", 0xfe00, 0xffc0, 0xff, 0xfe, 0x00, 0x0},
    }));
    CAPTURE(c.profile);
    const float nan = bit_cast<float>(0xffc00000u);
    CHECK(code_of(c.profile, "fp16", nan) == c.fp16);
    CHECK(code_of(c.profile, "bf16", nan) == c.bf16);
    CHECK(code_of(c.profile, "e4m3fn", nan) == c.e4m3fn);
    CHECK(code_of(c.profile, "e5m2", nan) == c.e5m2);
    CHECK(code_of(c.profile, "e2m3fn", nan) == c.e2m3fn);
    CHECK(code_of(c.profile, "e2m1fn", nan) == c.e2m1fn);
}

TEST_CASE("CUDA's host code keeps the sign and high payload of a NaN when it converts fp64 to fp8", "[core][profile]") {
    struct Case {
        std::uint64_t in, e4m3fn, e5m2;
    };
    const auto c = GENERATE(values<Case>({{0xfff8000000000000, 0xff, 0xfe},
                                          {0x7ff8000000000000, 0x7f, 0x7e},
                                          {0x7ffc000000000000, 0x7f, 0x7f},
                                          {0xfff0000000000001, 0xff, 0xfe}}));
    CAPTURE(c.in);
    for (const auto& row : all_profiles) {
        if (row.profile.nan != NanCodes::cuda_host) continue;
        CHECK(encode(row.profile, e4m3fn, bit_cast<double>(c.in), rne) == c.e4m3fn);
        CHECK(encode(row.profile, e5m2, bit_cast<double>(c.in), rne) == c.e5m2);
        CHECK(encode(row.profile, fp16, bit_cast<double>(c.in), rne) == 0x7fff);
    }
}

TEST_CASE("e8m0fnu treats zero, signs, ties and overflow as each implementation does", "[core][profile]") {
    struct Case {
        std::uint32_t in;
        std::uint64_t rz, rz_sat, rp, rp_sat, torch, ml_dtypes, ml_dtypes_sat;
    };
    const auto c = GENERATE(values<Case>({
        {0x00000000, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x00},
        {0x80000000, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x00},
        {0x00000001, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},
        {0x00400000, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},
        {0x00400001, 0x00, 0x00, 0x01, 0x01, 0x01, 0x01, 0x01},
        {0x3f800000, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f},
        {0x3f800001, 0x7f, 0x7f, 0x80, 0x80, 0x7f, 0x7f, 0x7f},
        {0x3fc00000, 0x7f, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80},
        {0x40400000, 0x80, 0x80, 0x81, 0x81, 0x81, 0x81, 0x81},
        {0xbf800000, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0xff, 0x00},
        {0x7f000001, 0xfe, 0xfe, 0xff, 0xfe, 0xfe, 0xfe, 0xfe},
        {0x7f400000, 0xfe, 0xfe, 0xff, 0xfe, 0xff, 0xff, 0xfe},
        {0x7f800000, 0xff, 0xfe, 0xff, 0xfe, 0xff, 0xff, 0xff},
        {0x7fc00000, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
    }));
    CAPTURE(c.in);
    const float x = bit_cast<float>(c.in);
    CHECK(code_of("cuda_nosat", "e8m0fnu", x, Round::toward_zero) == c.rz);
    CHECK(code_of("cuda_sat", "e8m0fnu", x, Round::toward_zero) == c.rz_sat);
    CHECK(code_of("cuda_nosat", "e8m0fnu", x, Round::up) == c.rp);
    CHECK(code_of("ptx", "e8m0fnu", x, Round::up) == c.rp_sat);
    CHECK(code_of("torch_legacy", "e8m0fnu", x) == c.torch);
    CHECK(code_of("mldtypes", "e8m0fnu", x) == c.ml_dtypes);
    CHECK(code_of("mldtypes_sat", "e8m0fnu", x) == c.ml_dtypes_sat);
}

TEST_CASE("profiles give the different results of the implementations that they emulate", "[core][profile]") {
    struct Case {
        const char *profile, *format;
        std::uint32_t in;
        Round mode;
        std::uint64_t code;
    };
    const auto c = GENERATE(values<Case>({
        {"cuda_sat", "e4m3fn", 0x7f800000, rne, 0x7e},
        {"cuda_nosat", "e4m3fn", 0xff800000, rne, 0xff},
        {"mldtypes_sat", "e4m3fn", 0x7f800000, rne, 0x7f},  // NaN and infinity are not saturated
        {"mldtypes_sat", "e4m3fn", 0x447a0000, rne, 0x7e},
        {"mldtypes_sat", "e5m2", 0x7f800000, rne, 0x7c},
        {"ieee", "bf16", 0x00400000, rne, 0x0040},
        {"ptx", "tf32", 0x7f800001, Round::nearest_away, 0x7f7fe000},  // this NaN becomes finite
        {"ptx", "tf32", 0xffc00000, Round::nearest_away, 0xffbfe000},  // NaN, lowered by one step
        {"ptx", "tf32", 0x7f7fffff, Round::nearest_away, 0x7f7fe000},
        {"torch_legacy", "e8m0fnu", 0x40400000, rne, 0x81},
        {"ieee", "e4m3fn", 0x447a0000, Round::toward_zero, 0x7e},
        {"mldtypes", "e4m3fn", 0x447a0000, Round::toward_zero, 0x7f},
        {"mldtypes", "e4m3fn", 0xc47a0000, Round::toward_zero, 0xff},
        {"mldtypes", "e4m3fn", 0x43efffff, Round::toward_zero, 0x7e},  // just below 480 truncates to 448
        {"mldtypes", "e4m3fn", 0x43f00000, Round::toward_zero, 0x7f},
        {"torch_legacy", "e4m3fn", 0x43e80001, rne, 0x7f},
        {"torch_sat", "e4m3fn", 0x43e80001, rne, 0x7e},
        {"torch_sat", "e4m3fn", 0x7f800000, rne, 0x7e},
        {"torch_sat", "e5m2", 0x47700000, rne, 0x7c},
        {"ieee", "e8m0fnu", 0x00400001, rne, 0x00},  // below the tie at 1.5 * 2^-127
        {"ieee", "e8m0fnu", 0x005fffff, rne, 0x00},
        {"ieee", "e8m0fnu", 0x00600000, rne, 0x01},
        {"cuda_sat", "e8m0fnu", 0x00400001, rne, 0x00},
        {"onnx.24", "e8m0fnu", 0x005fffff, rne, 0x00},
        {"torch_sat", "e8m0fnu", 0x00400001, rne, 0x01},  // all numbers between the two smallest scales round up
        {"torch_legacy", "e8m0fnu", 0x00400001, rne, 0x01},
        {"mldtypes", "e8m0fnu", 0x00400001, rne, 0x01},
        {"mldtypes_sat", "e8m0fnu", 0x005fffff, rne, 0x01},
        {"torch_sat", "e8m0fnu", 0x00400000, rne, 0x00},
        {"torch_sat", "e8m0fnu", 0x00400001, Round::toward_zero, 0x00},
        {"onnx.19", "fp16", 0x477ff000, rne, 0x7c00},  // the attribute saturate is for 8-bit formats only
        {"mldtypes", "e2m1fn", 0xff800000, rne, 0xf},
    }));
    CAPTURE(c.profile, c.format, c.in);
    CHECK(code_of(c.profile, c.format, bit_cast<float>(c.in), c.mode) == c.code);
}

TEST_CASE("each ONNX opset converts special numbers as the specification of its Cast operator says",
          "[core][profile]") {
    // The codes are copied from the specification of each version of the Cast operator. The inputs are NaN, inf, -inf,
    // 1e38, -1e38, 0 and -0.
    struct Case {
        const char* format;
        std::uint64_t nan, inf_19, inf_24, inf_nosat, beyond, beyond_nosat, negative_zero;
    };
    const auto c = GENERATE(values<Case>({
        {"e4m3fn", 0x7f, 0x7e, 0x7e, 0x7f, 0x7e, 0x7f, 0x80},
        {"e4m3fnuz", 0x80, 0x80, 0x7f, 0x80, 0x7f, 0x80, 0x00},
        {"e5m2", 0x7e, 0x7b, 0x7b, 0x7c, 0x7b, 0x7c, 0x80},
        {"e5m2fnuz", 0x80, 0x80, 0x7f, 0x80, 0x7f, 0x80, 0x00},
    }));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const Format f = format_named(c.format);
    CAPTURE(c.format);
    const auto negative = [](std::uint64_t code) { return code == 0x80 ? code : code | 0x80; };
    for (int opset = 19; opset <= 28; ++opset) {
        const std::string name = "onnx." + std::to_string(opset);
        CAPTURE(name);
        const std::uint64_t inf = opset < 24 ? c.inf_19 : c.inf_24;
        CHECK(code_of(name.c_str(), c.format, bit_cast<float>(0x7fc00000u)) == c.nan);
        CHECK(code_of(name.c_str(), c.format, infinity) == inf);
        CHECK(code_of(name.c_str(), c.format, -infinity) == negative(inf));
        CHECK(code_of(name.c_str(), c.format, 1e38f) == c.beyond);
        CHECK(code_of(name.c_str(), c.format, -1e38f) == negative(c.beyond));
        CHECK(code_of(name.c_str(), c.format, -0.0f) == c.negative_zero);
        CHECK(profile_row(name).profile.default_round(f) == Round::nearest_even);
        const std::string nosat = name + ".nosat";
        CHECK(code_of(nosat.c_str(), c.format, infinity) == c.inf_nosat);
        CHECK(code_of(nosat.c_str(), c.format, -infinity) == negative(c.inf_nosat));
        CHECK(code_of(nosat.c_str(), c.format, 1e38f) == c.beyond_nosat);
        CHECK(code_of(nosat.c_str(), c.format, -1e38f) == negative(c.beyond_nosat));
        CHECK(code_of(nosat.c_str(), c.format, -0.0f) == c.negative_zero);
        // float4 was added in opset 23, float8e8m0 in 24 and float6 in 28.
        CHECK(has_format(profile_row(name), f));
        CHECK(has_format(profile_row(name), e2m1fn) == (opset >= 23));
        CHECK(has_format(profile_row(name), e8m0fnu) == (opset >= 24));
        CHECK(has_format(profile_row(nosat), e3m2fn) == (opset >= 28));
    }
}

TEST_CASE("ONNX's float8e8m0 rounds up by default, and saturates or gives NaN out of range", "[core][profile]") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    struct Case {
        float x;
        std::uint64_t saturate_up, nosat_nearest;
        const char* why;
    };
    // The table in the specification of Cast covers 0, NaN, Inf, x > max and x < min, with and without saturation. The
    // other cases below follow the text of the specification.
    const auto c = GENERATE(values<Case>({
        {0.0f, 0x00, 0xff, "0"},
        {infinity, 0xfe, 0xff, "Inf"},
        {0x1.8p127f, 0xfe, 0xff, "beyond the largest scale after rounding"},
        {0x1p-149f, 0x00, 0xff, "below the smallest scale"},
        {0x1p-127f, 0x00, 0x00, "the smallest scale"},
        {0x1.2p0f, 0x80, 0x7f, "rounded up, and to nearest"},
        {0x1.8p0f, 0x80, 0x80, "a tie goes up"},
        {-0x1.2p0f, 0x80, 0x7f, "unspecified: the sign is dropped, as the reference does"},
    }));
    CAPTURE(c.why);
    CHECK(profile_named("onnx.24").default_round(e8m0fnu) == Round::up);
    CHECK(profile_named("onnx.28.nosat").default_round(e8m0fnu) == Round::up);
    CHECK(code_of("onnx.24", "e8m0fnu", c.x, Round::up) == c.saturate_up);
    CHECK(code_of("onnx.28", "e8m0fnu", c.x, Round::up) == c.saturate_up);
    CHECK(code_of("onnx.24.nosat", "e8m0fnu", c.x) == c.nosat_nearest);
}

TEST_CASE("the onnx_reference profile gives the codes recorded from the reference implementation of ONNX's Cast",
          "[core][profile]") {
    // These codes were recorded from the ReferenceEvaluator of onnx 1.23.2, for a Cast of opset 28 from float. Opset 25
    // gives the same codes.
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const float x[] = {nan,
                       -nan,
                       infinity,
                       -infinity,
                       0x1.2ced32p+126f,
                       -0x1.2ced32p+126f,
                       465,
                       464,
                       0x1.c363ccp+127f,
                       0,
                       -0.0f,
                       -1,
                       0x1p-127f,
                       0x1p-149f,
                       0x1.333334p-127f,
                       0x1.8p-127f,
                       0x1.b33334p-127f,
                       0x1p-126f,
                       0x1.333334p+0f,
                       1.5f,
                       3,
                       7,
                       100,
                       0x1.8p127f};
    struct Case {
        const char *profile, *format;
        Round mode;
        std::vector<int> codes;
    };
    const auto c = GENERATE(values<Case>({
        {"onnx_reference.1.23", "e4m3fn", rne, {0x7f, 0xff, 0x7e, 0xfe, 0x7e, 0xfe, 0x7e, 0x7e,
                                                0x7e, 0x00, 0x80, 0xb8, 0,    0,    0,    0,
                                                0,    0,    0x3a, 0x3c, 0x44, 0x4e, 0x6c, 0x7e}},
        {"onnx_reference.1.23.nosat", "e4m3fn", rne, {0x7f, 0xff, 0x7f, 0xff, 0x7f, 0xff, 0x7f, 0x7e,
                                                      0x7f, 0x00, 0x80, 0xb8, 0,    0,    0,    0,
                                                      0,    0,    0x3a, 0x3c, 0x44, 0x4e, 0x6c, 0x7f}},
        {"onnx_reference.1.23", "e4m3fnuz", rne, {0x80, 0x80, 0x7f, 0xff, 0x7f, 0xff, 0x7f, 0x7f,
                                                  0x7f, 0x00, 0x00, 0xc0, 0,    0,    0,    0,
                                                  0,    0,    0x42, 0x44, 0x4c, 0x56, 0x74, 0x7f}},
        {"onnx_reference.1.23.nosat", "e4m3fnuz", rne, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                                        0x80, 0x00, 0x00, 0xc0, 0,    0,    0,    0,
                                                        0,    0,    0x42, 0x44, 0x4c, 0x56, 0x74, 0x80}},
        {"onnx_reference.1.23", "e5m2", rne, {0x7e, 0xfe, 0x7b, 0xfb, 0x7b, 0xfb, 0x5f, 0x5f, 0x7b, 0x00, 0x80, 0xbc,
                                              0,    0,    0,    0,    0,    0,    0x3d, 0x3e, 0x42, 0x47, 0x56, 0x7b}},
        {"onnx_reference.1.23.nosat", "e5m2fnuz", rne, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x63, 0x63,
                                                        0x80, 0x00, 0x00, 0xc0, 0,    0,    0,    0,
                                                        0,    0,    0x41, 0x42, 0x46, 0x4b, 0x5a, 0x80}},
        {"onnx_reference.1.23", "e8m0fnu", Round::up, {0xff, 0xff, 0xff, 0xff, 0xfe, 0xfe, 0x88, 0x88,
                                                       0xfe, 0x00, 0x00, 0x7f, 1,    1,    1,    1,
                                                       1,    1,    0x80, 0x80, 0x81, 0x82, 0x86, 0xfe}},
        {"onnx_reference.1.23", "e8m0fnu", rne, {0xff, 0xff, 0xff, 0xff, 0xfd, 0xfd, 0x88, 0x88,
                                                 0xfe, 0x00, 0x00, 0x7f, 0,    0,    1,    1,
                                                 1,    1,    0x7f, 0x80, 0x81, 0x82, 0x86, 0xfe}},
        {"onnx_reference.1.23", "e8m0fnu", Round::toward_zero, {0xff, 0xff, 0xff, 0xff, 0xfd, 0xfd, 0x87, 0x87,
                                                                0xfe, 0x00, 0x00, 0x7f, 0,    0,    0,    0,
                                                                0,    1,    0x7f, 0x7f, 0x80, 0x81, 0x85, 0xfe}},
        {"onnx_reference.1.23.nosat", "e8m0fnu", Round::up, {0xff, 0xff, 0xff, 0xff, 0xfe, 0xfe, 0x88, 0x88,
                                                             0xff, 0x00, 0x00, 0x7f, 1,    1,    1,    1,
                                                             1,    1,    0x80, 0x80, 0x81, 0x82, 0x86, 0xff}},
        {"onnx_reference.1.23.nosat", "e8m0fnu", rne, {0xff, 0xff, 0xff, 0xff, 0xfd, 0xfd, 0x88, 0x88,
                                                       0xff, 0x00, 0x00, 0x7f, 0,    0,    1,    1,
                                                       1,    1,    0x7f, 0x80, 0x81, 0x82, 0x86, 0xff}},
        {"onnx_reference.1.23.nosat", "e8m0fnu", Round::toward_zero, {0xff, 0xff, 0xff, 0xff, 0xfd, 0xfd, 0x87, 0x87,
                                                                      0xfe, 0x00, 0x00, 0x7f, 0,    0,    0,    0,
                                                                      0,    1,    0x7f, 0x7f, 0x80, 0x81, 0x85, 0xfe}},
        {"onnx_reference.1.23", "e2m1fn", rne, {0x08, 0x00, 0x07, 0x0f, 0x07, 0x0f, 0x07, 0x07,
                                                0x07, 0x00, 0x08, 0x0a, 0,    0,    0,    0,
                                                0,    0,    0x02, 0x03, 0x05, 0x07, 0x07, 0x07}},
        {"onnx_reference.1.23", "e3m2fn", rne, {0x20, 0x00, 0x1f, 0x3f, 0x1f, 0x3f, 0x1f, 0x1f,
                                                0x1f, 0x00, 0x20, 0x2c, 0,    0,    0,    0,
                                                0,    0,    0x0d, 0x0e, 0x12, 0x17, 0x1f, 0x1f}},
        {"onnx_reference.1.23", "bf16", rne, {0x7fc0, 0xffc0, 0x7f80, 0xff80, 0x7e96, 0xfe96, 0x43e8, 0x43e8,
                                              0x7f62, 0x0000, 0x8000, 0xbf80, 0x0040, 0x0000, 0x004d, 0x0060,
                                              0x006d, 0x0080, 0x3f9a, 0x3fc0, 0x4040, 0x40e0, 0x42c8, 0x7f40}},
    }));
    CAPTURE(c.profile, c.format, static_cast<int>(c.mode));
    REQUIRE(c.codes.size() == std::size(x));
    for (std::size_t i = 0; i < std::size(x); ++i) {
        CAPTURE(i, x[i]);
        CHECK(code_of(c.profile, c.format, x[i], c.mode) == static_cast<std::uint64_t>(c.codes[i]));
    }
}

TEST_CASE("a profile name without an edition is refused, and the error lists the editions", "[core][profile]") {
    for (const char* name : {"onnx", "onnx_saturate", "onnx_nosat", "onnx_reference"}) {
        CAPTURE(name);
        try {
            profile_named(name);
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.parts().what.find("is ambiguous") != std::string::npos);
            const bool is_reference = std::string_view(name) == "onnx_reference";
            CHECK(error.parts().fix.starts_with(is_reference ? "choose an edition: onnx_reference.1.23, "
                                                             : "choose an edition: onnx.19, onnx.19.nosat, onnx.21, "));
        }
    }
    CHECK(profile_row("onnx.26").name == "onnx.25");
    CHECK(profile_row("onnx.22.nosat").name == "onnx.21.nosat");
}

TEST_CASE("every profile states the edition and source of its implementation, and lists formats that exist",
          "[core][profile]") {
    for (const NamedProfile& row : all_profiles) {
        CAPTURE(row.name);
        CHECK_FALSE(row.edition.empty());
        CHECK_FALSE(row.source.empty());
        for (const std::string_view name : split_names(row.formats)) CHECK(find_format(name) != nullptr);
    }
    try {
        require_format(profile_row("onnx.19"), e8m0fnu, "--profile");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(error.parts().what == "profile onnx.19 does not convert to e8m0fnu");
        CHECK(error.parts().fix.find("onnx.24") != std::string::npos);
        CHECK(error.parts().fix.find("onnx.21") == std::string::npos);
    }
}

TEST_CASE("ml_dtypes truncates numbers just below 2^128 to the largest e8m0fnu scale, and 2^128 becomes NaN",
          "[core][profile]") {
    const Profile p = profile_named("mldtypes");
    CHECK(encode(p, e8m0fnu, 0x1.8p127, Round::toward_zero) == 0xfe);
    CHECK(encode(p, e8m0fnu, 0x1.fffffffffffffp127, Round::toward_zero) == 0xfe);
    CHECK(encode(p, e8m0fnu, 0x1p128, Round::toward_zero) == 0xff);
}

TEST_CASE("profiles that flush subnormal inputs keep the smallest normal number of fp32", "[core][profile]") {
    std::size_t flushing = 0;
    for (const auto& each : all_profiles) {
        for (const auto& named : all_formats) {
            if (!each.profile.flushes_subnormals || named.format.encoding != Encoding::binary ||
                named.format.emin() > -126)
                continue;
            ++flushing;
            CAPTURE(each.name, named.name);
            for (const double sign : {1.0, -1.0}) {
                const std::uint64_t zero = encode64(named.format, sign * 0.0, rne, Overflow::nonsaturate);
                const std::uint64_t least = encode64(named.format, sign * 0x1p-126, rne, Overflow::nonsaturate);
                CHECK(least != zero);
                CHECK(encode64(each.profile, named.format, sign * 0x1p-126, rne) == least);
                CHECK(encode64(each.profile, named.format, static_cast<float>(sign * 0x1p-126), rne) == least);
                CHECK(encode64(each.profile, named.format, sign * std::nextafter(0x1p-126, 0), rne) == zero);
                CHECK(encode64(each.profile, named.format, std::nextafter(static_cast<float>(sign * 0x1p-126), 0.0f),
                               rne) == zero);
            }
        }
    }
    CHECK(flushing > 0);
}

TEST_CASE("PyTorch rounds an fp64 input to fp32 first and then to the target format", "[core][profile]") {
    const double x = bit_cast<double>(0x3ff1000000001000ull);
    CHECK(encode(profile_named("ieee"), e4m3fn, x, rne) == 0x39);
    CHECK(encode(profile_named("torch_legacy"), e4m3fn, x, rne) == 0x38);
    CHECK(encode64(profile_named("torch_legacy"), fp64, x, rne) == 0x3ff1000000001000ull);
}

TEST_CASE("the ieee profile gives the same codes as the codec without a profile", "[core][profile]") {
    for (const auto& named : all_formats) {
        for (std::uint32_t i = 0; i < 4096; ++i) {
            const float x = bit_cast<float>(i << 20 | i);
            for (const auto mode : {Round::nearest_even, Round::up, Round::to_odd}) {
                REQUIRE(encode64(Profile{}, named.format, x, mode) ==
                        encode64(named.format, x, mode, Overflow::nonsaturate));
            }
        }
    }
}

TEST_CASE("an unknown profile name is refused with a suggestion", "[core][profile]") {
    try {
        profile_named("mldtype");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(error.parts().fix == "did you mean mldtypes?");
    }
}

}  // namespace profile_test
