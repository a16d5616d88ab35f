// SPDX-License-Identifier: Apache-2.0
// The codec profiles against NVIDIA's own headers, whose host branches need no GPU.
#include "core/format_table.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

using namespace macheps;

namespace {

/// Random bit patterns; a half have exponents near 1, where the narrow formats live, and one in four few fraction bits.
std::vector<double> hard_operands(bool as_fp32) {
    std::vector<double> operands;
    for (std::uint64_t i = 0; i < 400'000; ++i) {
        const auto words = random_block({.seed = 11}, i);
        std::uint64_t bits = std::uint64_t{words.word[0]} << 32 | words.word[1];
        if (words.word[2] & 1) {
            const std::uint64_t exponent = 1023 - 32 + words.word[2] / 2 % 64;
            bits = (bits & 0x800fffffffffffffull) | exponent << 52;
        }
        if (words.word[3] % 4 == 0)
            bits = (bits & 0xffff000000000000ull) | (words.word[3] / 4 % 3) << (as_fp32 ? 29 : 0);
        const double x = bit_cast<double>(bits);
        operands.push_back(as_fp32 ? static_cast<double>(static_cast<float>(x)) : x);
    }
    for (const std::uint32_t u :
         {0u, 1u, 0x00400000u, 0x00400001u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x7f800000u}) {
        for (const std::uint32_t sign : {0u, 0x80000000u}) operands.push_back(bit_cast<float>(u | sign));
    }
    return operands;
}

class Mismatches {
  public:
    void compare(const char* what, double x, std::uint64_t got, std::uint64_t want) {
        ++compared;
        if (got != want && ++count <= 10) report += fmt::format("{} {:a}: {:x}, NVIDIA {:x}\n", what, x, got, want);
    }
    std::uint64_t compared = 0, count = 0;
    std::string report;
};

constexpr auto rne = Round::nearest_even;

}  // namespace

TEST_CASE("8, 6 and 4-bit casts are those of NVIDIA's headers", "[core][profile][cuda]") {
    const Profile sat = profile_named("cuda_sat"), nosat = profile_named("cuda_nosat");
    Mismatches m;
    const auto check = [&](auto x, auto to_fp8, auto to_fp6, auto to_fp4) {
        m.compare("e4m3fn sat", x, encode(sat, e4m3fn, x, rne), to_fp8(x, __NV_SATFINITE, __NV_E4M3));
        m.compare("e4m3fn nosat", x, encode(nosat, e4m3fn, x, rne), to_fp8(x, __NV_NOSAT, __NV_E4M3));
        m.compare("e5m2 sat", x, encode(sat, e5m2, x, rne), to_fp8(x, __NV_SATFINITE, __NV_E5M2));
        m.compare("e5m2 nosat", x, encode(nosat, e5m2, x, rne), to_fp8(x, __NV_NOSAT, __NV_E5M2));
        m.compare("e2m3fn", x, encode(sat, e2m3fn, x, rne), to_fp6(x, __NV_E2M3, cudaRoundNearest));
        m.compare("e3m2fn", x, encode(sat, e3m2fn, x, rne), to_fp6(x, __NV_E3M2, cudaRoundNearest));
        m.compare("e2m1fn", x, encode(sat, e2m1fn, x, rne), to_fp4(x, __NV_E2M1, cudaRoundNearest));
    };
    for (const double x : hard_operands(true)) {
        check(static_cast<float>(x), __nv_cvt_float_to_fp8, __nv_cvt_float_to_fp6, __nv_cvt_float_to_fp4);
    }
    for (const double x : hard_operands(false)) {
        check(x, __nv_cvt_double_to_fp8, __nv_cvt_double_to_fp6, __nv_cvt_double_to_fp4);
    }
    for (const std::uint32_t u : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
        check(bit_cast<float>(u), __nv_cvt_float_to_fp8, __nv_cvt_float_to_fp6, __nv_cvt_float_to_fp4);
        const std::uint64_t wide = std::uint64_t{u} << 32 | u;
        check(bit_cast<double>(wide), __nv_cvt_double_to_fp8, __nv_cvt_double_to_fp6, __nv_cvt_double_to_fp4);
    }
    INFO(m.report);
    CHECK(m.count == 0);
    CHECK(m.compared > 5'000'000);
}

TEST_CASE("e8m0fnu is that of NVIDIA's headers", "[core][profile][cuda]") {
    Mismatches m;
    const auto check = [&](auto x, auto convert) {
        for (const auto& [mode, theirs] :
             {std::pair{Round::toward_zero, cudaRoundZero}, {Round::up, cudaRoundPosInf}}) {
            m.compare("e8m0 sat", x, encode(profile_named("cuda_sat"), e8m0fnu, x, mode),
                      convert(x, __NV_SATFINITE, theirs));
            m.compare("e8m0 nosat", x, encode(profile_named("cuda_nosat"), e8m0fnu, x, mode),
                      convert(x, __NV_NOSAT, theirs));
        }
    };
    for (const double x : hard_operands(true)) check(static_cast<float>(x), __nv_cvt_float_to_e8m0);
    for (const double x : hard_operands(false)) check(x, __nv_cvt_double_to_e8m0);
    INFO(m.report);
    CHECK(m.count == 0);
}

TEST_CASE("fp16 and bf16 casts are those of NVIDIA's headers, in every mode", "[core][profile][cuda]") {
    const Profile nosat = profile_named("cuda_nosat");
    Mismatches m;
    const auto raw = [](auto x) {
        if constexpr (sizeof(x) == 2) return bit_cast<std::uint16_t>(x);
    };
    for (const double wide : hard_operands(true)) {
        const auto x = static_cast<float>(wide);
        m.compare("fp16 rne", x, encode(nosat, fp16, x, rne), raw(__float2half_rn(x)));
        m.compare("fp16 rz", x, encode(nosat, fp16, x, Round::toward_zero), raw(__float2half_rz(x)));
        m.compare("fp16 ru", x, encode(nosat, fp16, x, Round::up), raw(__float2half_ru(x)));
        m.compare("fp16 rd", x, encode(nosat, fp16, x, Round::down), raw(__float2half_rd(x)));
        m.compare("bf16 rne", x, encode(nosat, bf16, x, rne), raw(__float2bfloat16_rn(x)));
        m.compare("bf16 rz", x, encode(nosat, bf16, x, Round::toward_zero), raw(__float2bfloat16_rz(x)));
        m.compare("bf16 ru", x, encode(nosat, bf16, x, Round::up), raw(__float2bfloat16_ru(x)));
        m.compare("bf16 rd", x, encode(nosat, bf16, x, Round::down), raw(__float2bfloat16_rd(x)));
    }
    for (const double x : hard_operands(false)) {
        m.compare("fp16 from fp64", x, encode(nosat, fp16, x, rne), raw(__double2half(x)));
        m.compare("bf16 from fp64", x, encode(nosat, bf16, x, rne), raw(__double2bfloat16(x)));
    }
    INFO(m.report);
    CHECK(m.count == 0);
}
