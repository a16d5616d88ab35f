// SPDX-License-Identifier: Apache-2.0
// Compares the codec profiles with the conversion functions of NVIDIA's headers. The host versions of these functions
// need no GPU.
#include "core/format_table.hpp"
#include "core/host/thread_pool.hpp"
#include "core/profile_table.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace cuda_headers_test {

using namespace macheps;

namespace {

/// Returns random and special numbers. Half of the random numbers have exponents from -32 to 31, which cover the narrow
/// formats. A quarter have few fraction bits.
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

TEST_CASE("8, 6 and 4-bit casts agree with NVIDIA's headers", "[core][profile][cuda]") {
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

TEST_CASE("e8m0fnu casts agree with NVIDIA's headers", "[core][profile][cuda]") {
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

TEST_CASE("fp16 and bf16 casts agree with NVIDIA's headers, in every mode", "[core][profile][cuda]") {
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

namespace {

constexpr Profile profile_of(std::string_view name) {
    for (const auto& row : all_profiles) {
        if (row.name == name) return row.profile;
    }
    return {};
}
constexpr Profile sat = profile_of("cuda_sat"), nosat = profile_of("cuda_nosat");
static_assert(sat != Profile{} && nosat != Profile{});

struct Block {
    std::uint64_t count = 0;
    std::uint32_t first = 0;  ///< the first input whose results differ
};

template <class Ours, class Theirs>
inline Block differences_in(std::uint32_t begin, std::uint32_t size, Ours ours, Theirs theirs) {
    Block block;
    for (std::uint32_t i = 0; i < size; ++i) {
        const float x = bit_cast<float>(begin + i);
        if (ours(x) != theirs(x) && block.count++ == 0) block.first = begin + i;
    }
    return block;
}

template <class Ours, class Theirs>
Block differences(std::uint32_t begin, std::uint32_t size, Ours ours, Theirs theirs) {
    return differences_in(begin, size, ours, theirs);
}

#if defined(__x86_64__)
/// Does the same as differences(). It is compiled with the BMI and LZCNT instructions, for shifts and leading zeros.
template <class Ours, class Theirs>
__attribute__((target("bmi,bmi2,lzcnt"), flatten)) Block differences_with_bmi(std::uint32_t begin, std::uint32_t size,
                                                                              Ours ours, Theirs theirs) {
    return differences_in(begin, size, ours, theirs);
}
#endif

/// Compares `ours` with `theirs` on all 2^32 fp32 inputs, using all cores.
template <class Ours, class Theirs>
void compare_all(const char* what, Ours ours, Theirs theirs) {
    auto run = differences<Ours, Theirs>;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx2")) run = differences_with_bmi<Ours, Theirs>;
#endif
    const auto begin = std::chrono::steady_clock::now();
    static ThreadPool pool(available_threads());
    std::atomic<std::uint64_t> asked{0}, wrong{0};
    std::atomic<std::uint32_t> example{0};
    constexpr std::uint32_t block = 1u << 22;
    pool.run((std::int64_t{1} << 32) / block, [&](std::int64_t i) {
        const Block found = run(static_cast<std::uint32_t>(i) * block, block, ours, theirs);
        asked += block;
        wrong += found.count;
        if (found.count != 0) example = found.first;
    });
    const float x = bit_cast<float>(example.load());
    std::printf("%-12s %llu inputs, %llu mismatches, %.0f s\n", what, static_cast<unsigned long long>(asked.load()),
                static_cast<unsigned long long>(wrong.load()),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
    INFO(fmt::format("{} {:08x}: {:x}, NVIDIA {:x}", what, example.load(), ours(x), theirs(x)));
    CHECK(wrong == 0);
    CHECK(asked == std::uint64_t{1} << 32);
}

template <class Raw>
std::uint32_t raw16(Raw x) {
    return bit_cast<std::uint16_t>(x);
}

}  // namespace

TEST_CASE("every fp32 number converts to the same code as in NVIDIA's headers", "[core][profile][cuda][slow]") {
    constexpr auto rz = Round::toward_zero;
    const auto fp8 = [](auto saturation, auto kind) {
        return [=](float x) -> std::uint32_t { return __nv_cvt_float_to_fp8(x, saturation, kind); };
    };
    compare_all(
        "e4m3fn sat", [](float x) { return encode(sat, e4m3fn, x, rne); }, fp8(__NV_SATFINITE, __NV_E4M3));
    compare_all(
        "e4m3fn nosat", [](float x) { return encode(nosat, e4m3fn, x, rne); }, fp8(__NV_NOSAT, __NV_E4M3));
    compare_all(
        "e5m2 sat", [](float x) { return encode(sat, e5m2, x, rne); }, fp8(__NV_SATFINITE, __NV_E5M2));
    compare_all(
        "e5m2 nosat", [](float x) { return encode(nosat, e5m2, x, rne); }, fp8(__NV_NOSAT, __NV_E5M2));
    const auto fp6 = [](auto kind) {
        return [=](float x) -> std::uint32_t { return __nv_cvt_float_to_fp6(x, kind, cudaRoundNearest); };
    };
    compare_all(
        "e2m3fn", [](float x) { return encode(sat, e2m3fn, x, rne); }, fp6(__NV_E2M3));
    compare_all(
        "e3m2fn", [](float x) { return encode(sat, e3m2fn, x, rne); }, fp6(__NV_E3M2));
    compare_all(
        "e2m1fn", [](float x) { return encode(sat, e2m1fn, x, rne); },
        [](float x) -> std::uint32_t { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
    const auto e8m0 = [](auto saturation, auto mode) {
        return [=](float x) -> std::uint32_t { return __nv_cvt_float_to_e8m0(x, saturation, mode); };
    };
    compare_all(
        "e8m0 rz sat", [](float x) { return encode(sat, e8m0fnu, x, rz); }, e8m0(__NV_SATFINITE, cudaRoundZero));
    compare_all(
        "e8m0 rz", [](float x) { return encode(nosat, e8m0fnu, x, rz); }, e8m0(__NV_NOSAT, cudaRoundZero));
    compare_all(
        "e8m0 ru sat", [](float x) { return encode(sat, e8m0fnu, x, Round::up); },
        e8m0(__NV_SATFINITE, cudaRoundPosInf));
    compare_all(
        "e8m0 ru", [](float x) { return encode(nosat, e8m0fnu, x, Round::up); }, e8m0(__NV_NOSAT, cudaRoundPosInf));
    compare_all(
        "fp16 rne", [](float x) { return encode(nosat, fp16, x, rne); },
        [](float x) { return raw16(__float2half_rn(x)); });
    compare_all(
        "fp16 rz", [](float x) { return encode(nosat, fp16, x, rz); },
        [](float x) { return raw16(__float2half_rz(x)); });
    compare_all(
        "bf16 rne", [](float x) { return encode(nosat, bf16, x, rne); },
        [](float x) { return raw16(__float2bfloat16_rn(x)); });
    compare_all(
        "bf16 rz", [](float x) { return encode(nosat, bf16, x, rz); },
        [](float x) { return raw16(__float2bfloat16_rz(x)); });
}

}  // namespace cuda_headers_test
