// SPDX-License-Identifier: Apache-2.0
#include "core/profile.hpp"
#include "core/format_table.hpp"
#include "tests/test.hpp"

#include <cmath>

using namespace macheps;

namespace {

constexpr auto rne = Round::nearest_even;

std::uint64_t code_of(const char* profile, const char* format, float x, Round mode = rne) {
    return encode64(profile_named(profile), format_named(format), x, mode);
}

}  // namespace

TEST_CASE("NaN codes are those of each implementation", "[core][profile]") {
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
        {"onnx_saturate", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x1f, 0x7, 0xff},
        {"onnx_nosat", 0x7e00, 0x7fc0, 0x7f, 0x7e, 0x1f, 0x7, 0xff},
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

TEST_CASE("the sign of a NaN is kept where the implementation keeps it", "[core][profile]") {
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
        {"onnx_nosat", 0xfe00, 0xffc0, 0xff, 0xfe, 0x1f, 0x7},
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

TEST_CASE("the CUDA host path keeps more of a NaN from fp64 than from fp32", "[core][profile]") {
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

TEST_CASE("profiles differ where implementations do", "[core][profile]") {
    struct Case {
        const char *profile, *format;
        std::uint32_t in;
        Round mode;
        std::uint64_t code;
    };
    const auto c = GENERATE(values<Case>({
        {"cuda_sat", "e4m3fn", 0x7f800000, rne, 0x7e},
        {"cuda_nosat", "e4m3fn", 0xff800000, rne, 0xff},
        {"mldtypes_sat", "e4m3fn", 0x7f800000, rne, 0x7f},  // specials come before saturation
        {"mldtypes_sat", "e4m3fn", 0x447a0000, rne, 0x7e},
        {"mldtypes_sat", "e5m2", 0x7f800000, rne, 0x7c},
        {"ieee", "bf16", 0x00400000, rne, 0x0040},
        {"ptx", "tf32", 0x7f800001, Round::nearest_away, 0x7f800000},  // a NaN that becomes infinity
        {"ptx", "tf32", 0xffc00000, Round::nearest_away, 0xffc00000},
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
        {"onnx_saturate", "e4m3fn", 0x7f800000, rne, 0x7e},
        {"onnx_saturate", "e5m2", 0xff800000, rne, 0xfb},
        {"onnx_saturate", "e4m3fnuz", 0x7f800000, rne, 0x80},
        {"onnx_saturate", "e4m3fnuz", 0x43780000, rne, 0x7f},
        {"onnx_saturate", "fp16", 0x477ff000, rne, 0x7c00},  // the attribute speaks of 8-bit formats
        {"onnx_nosat", "e4m3fn", 0x7f800000, rne, 0x7f},
        {"onnx_nosat", "e4m3fnuz", 0x43780000, rne, 0x80},
        {"mldtypes", "e2m1fn", 0xff800000, rne, 0xf},
    }));
    CAPTURE(c.profile, c.format, c.in);
    CHECK(code_of(c.profile, c.format, bit_cast<float>(c.in), c.mode) == c.code);
}

TEST_CASE("ml_dtypes truncates a scale down to the largest one, and no further", "[core][profile]") {
    const Profile p = profile_named("mldtypes");
    CHECK(encode(p, e8m0fnu, 0x1.8p127, Round::toward_zero) == 0xfe);
    CHECK(encode(p, e8m0fnu, 0x1.fffffffffffffp127, Round::toward_zero) == 0xfe);
    CHECK(encode(p, e8m0fnu, 0x1p128, Round::toward_zero) == 0xff);
}

TEST_CASE("PyTorch rounds fp64 twice", "[core][profile]") {
    const double x = bit_cast<double>(0x3ff1000000001000ull);
    CHECK(encode(profile_named("ieee"), e4m3fn, x, rne) == 0x39);
    CHECK(encode(profile_named("torch_legacy"), e4m3fn, x, rne) == 0x38);
    CHECK(encode64(profile_named("torch_legacy"), fp64, x, rne) == 0x3ff1000000001000ull);
}

TEST_CASE("the ieee profile is the codec itself", "[core][profile]") {
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

TEST_CASE("an unknown profile gets its neighbour", "[core][profile]") {
    try {
        profile_named("mldtype");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(error.parts().fix == "did you mean mldtypes?");
    }
}
