// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "core/math.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "tests/emulation/vec_math_kernels.hpp"
#include "tests/test.hpp"

#include <hwy/targets.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace vec_math_test {

using namespace macheps;

namespace {

struct Pair {
    const char* name;
    float (*scalar)(float);
    test::ArrayFunction test::ArrayFunctions::*vector;
};

const Pair pairs[] = {
    {"exp", math::exp, &test::ArrayFunctions::exp},       {"expm1", math::expm1, &test::ArrayFunctions::expm1},
    {"log", math::log, &test::ArrayFunctions::log},       {"log1p", math::log1p, &test::ArrayFunctions::log1p},
    {"tanh", math::tanh, &test::ArrayFunctions::tanh},    {"erf", math::erf, &test::ArrayFunctions::erf},
    {"rsqrt", math::rsqrt, &test::ArrayFunctions::rsqrt}, {"sin", math::sin, &test::ArrayFunctions::sin},
    {"cos", math::cos, &test::ArrayFunctions::cos},
};

/// Returns the number of inputs for which scalar and vector code give different bits. Prints the first ten.
std::uint64_t mismatches(const Pair& pair, Simd level, const std::vector<float>& x) {
    std::vector<float> y(x.size());
    (test::vector_functions(level).*pair.vector)(x.data(), y.data(), x.size());
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto expected = bit_cast<std::uint32_t>(pair.scalar(x[i])), got = bit_cast<std::uint32_t>(y[i]);
        if (expected == got || ++count > 10) continue;
        std::printf("%s(%08x): scalar %08x, %s %08x\n", pair.name, bit_cast<std::uint32_t>(x[i]), expected,
                    std::string(simd_name(level)).c_str(), got);
    }
    return count;
}

void compare_all(std::uint32_t stride, std::uint32_t slow_stride) {
    const std::vector<Simd> levels = available_simd();
    if (levels.size() == 1) SKIP_TEST("this CPU has no AVX2");
    for (const Pair& pair : pairs) {
        const bool slow = pair.scalar == static_cast<float (*)(float)>(math::sin) ||
                          pair.scalar == static_cast<float (*)(float)>(math::cos);
        const std::uint64_t step = slow ? slow_stride : stride;
        for (std::uint64_t base = 0; base < (std::uint64_t{1} << 32); base += step * 65536) {
            std::vector<float> x;
            for (std::uint64_t u = base; u < (std::uint64_t{1} << 32) && x.size() < 65536; u += step) {
                x.push_back(bit_cast<float>(static_cast<std::uint32_t>(u)));
            }
            for (const Simd level : levels) {
                if (level == Simd::scalar) continue;
                CAPTURE(pair.name, simd_name(level));
                if (const auto count = mismatches(pair, level, x); count != 0) {
                    CHECK(count == 0);
                    return;
                }
            }
        }
        SUCCEED(pair.name);
    }
}

}  // namespace

TEST_CASE("vector math gives the bits of the scalar code on evenly spaced inputs", "[emulation][math]") {
    compare_all(1021, 65521);
}

TEST_CASE("vector math gives the bits of the scalar code on every eighth input", "[emulation][math][slow]") {
    compare_all(8, 1021);
}

TEST_CASE("vector math gives the bits of the scalar code around special points and for short arrays",
          "[emulation][math]") {
    const std::vector<Simd> levels = available_simd();
    if (levels.size() == 1) SKIP_TEST("this CPU has no AVX2");
    std::vector<float> x;
    for (const float centre :
         {0.0f, 0x1p-126f, 0x1p-12f, 0.55f, 0x1.6a09e6p-1f, 0.875f, 1.0f, 0x1.6a09e6p0f, 4.0f, 10.0f, 30.0f,
          0x1.5d589ep6f, 0x1.62e43p6f, 0x1.9fe368p6f, 104.0f, 0x1p20f, 0x1.fffffep127f}) {
        const auto bits = static_cast<std::int64_t>(bit_cast<std::uint32_t>(centre));
        for (std::int64_t u = std::max<std::int64_t>(bits - 300, 0); u < bits + 300; ++u) {
            x.push_back(bit_cast<float>(static_cast<std::uint32_t>(u)));
            x.push_back(bit_cast<float>(static_cast<std::uint32_t>(u) | 0x80000000u));
        }
    }
    for (const std::uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu})
        x.push_back(bit_cast<float>(nan));
    for (const Pair& pair : pairs) {
        for (const Simd level : levels) {
            if (level == Simd::scalar) continue;
            CAPTURE(pair.name, simd_name(level));
            CHECK(mismatches(pair, level, x) == 0);
            // Tests tails of every length. The element after the tail must not change.
            for (std::size_t n = 0; n < 40; ++n) {
                std::vector<float> y(n + 1, -77.0f);
                (test::vector_functions(level).*pair.vector)(x.data() + 600, y.data(), n);
                bool same = y[n] == -77.0f;
                for (std::size_t i = 0; i < n; ++i) {
                    same = same && bit_cast<std::uint32_t>(y[i]) == bit_cast<std::uint32_t>(pair.scalar(x[600 + i]));
                }
                CAPTURE(n);
                CHECK(same);
            }
        }
    }
}

TEST_CASE("if an fp32 vector is processed as two fp64 halves, the results are joined in the right order",
          "[emulation][math]") {
    const std::vector<Simd> levels = available_simd();
    if (levels.size() == 1) SKIP_TEST("this CPU has no AVX2");
    std::vector<float> x(100);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0f + static_cast<float>(i);
    for (const Simd level : levels) {
        if (level == Simd::scalar) continue;
        std::vector<float> y(x.size());
        test::vector_functions(level).halve_in_fp64(x.data(), y.data(), x.size());
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == x[i] / 2);
    }
}

TEST_CASE("MACHEPS_SIMD selects an instruction set, and an unavailable one is refused", "[emulation][simd]") {
    const char* before = std::getenv("MACHEPS_SIMD");
    const std::string saved = before == nullptr ? "" : before;
    CHECK(available_simd().front() == Simd::scalar);
    for (const Simd level : available_simd()) {
        setenv("MACHEPS_SIMD", std::string(simd_name(level)).c_str(), 1);
        CHECK(chosen_simd() == level);
    }
    unsetenv("MACHEPS_SIMD");
    CHECK(chosen_simd() == available_simd().back());
    setenv("MACHEPS_SIMD", "sse9", 1);
    try {
        (void)chosen_simd();
        FAIL("an unknown instruction set was accepted");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        CHECK(std::string(error.what()).find("sse9") != std::string::npos);
    }
    saved.empty() ? unsetenv("MACHEPS_SIMD") : setenv("MACHEPS_SIMD", saved.c_str(), 1);
}

TEST_CASE("available_simd finds the same instruction sets as Highway", "[emulation][simd]") {
    const std::int64_t targets = hwy::SupportedTargets();
    std::vector<Simd> levels{Simd::scalar};
    // A build with MACHEPS_SIMD=native contains only one of the two vector instruction sets.
#ifndef MACHEPS_ONLY_AVX512
    if ((targets & HWY_AVX2) != 0) levels.push_back(Simd::avx2);
#endif
#ifndef MACHEPS_ONLY_AVX2
    if ((targets & HWY_AVX2) != 0 && (targets & HWY_AVX3) != 0) levels.push_back(Simd::avx512);
#endif
    CHECK(available_simd() == levels);
}

}  // namespace vec_math_test
