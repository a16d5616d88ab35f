// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/lu.hpp"
#include "core/format_table.hpp"
#include "core/types/float.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/study/rounder.hpp"
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/definitions.hpp"
#include "experiments/study/solve/gallery.hpp"
#include "tests/study/codes.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <random>

namespace lu_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::test;

namespace {

/// Compares PrefixRounder with Float. For numbers of F that are stored as float, PrefixRounder computes in fp32 and
/// then rounds the result to F.
template <Format F, bool lifts>
void compare_operations_in_float(int trials) {
    const PrefixRounder<lifts> round(F);
    std::mt19937_64 random(7);
    const auto same = [](float got, Float<F> expected) {
        return isnan(expected) ? got != got
                               : std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(float(expected));
    };
    int products = 0, quotients = 0, sums = 0, tiny = 0;
    for (int i = 0; i < trials; ++i) {
        const auto drawn_code = [&] {
            return Float<F>::from_bits((random() & (F.sign_bit() | F.magnitude_mask())) << F.padding);
        };
        const Float<F> a = drawn_code();
        Float<F> b = drawn_code();
        // Every second pair has a product or a quotient around the smallest normal number, or nearly cancels.
        const auto size = static_cast<int>(random() % 24);
        if (i % 2 == 1)
            b = Float<F>(std::ldexp(double(Float<F>(1 + std::ldexp(static_cast<double>(random() >> 11), -53))),
                                    F.emin() - std::ilogb(double(a)) + 4 - size));
        if (i % 8 == 3) b = Float<F>(-std::ldexp(double(a), size % 4 - 1));
        const float x = float(a), y = float(b);
        products += !same(round.product(x, y), a * b);
        quotients += !same(round.quotient(x, y), a / b);
        sums += !same(round(x - y), a - b);
        const double p = std::fabs(double(a * b));
        tiny += p != 0 && p < 0x1p-126;
    }
    CAPTURE(F.precision);
    CHECK(products == 0);
    CHECK(quotients == 0);
    CHECK(sums == 0);
    CHECK(tiny > trials / 16);
}

/// Tests products for which a rounding to fp32 before the rounding to F can give a wrong result. They are so small that
/// fp32 loses some of their bits, and so close to the midpoint of two numbers of F that fp32 rounds to the midpoint.
/// Returns the number of these products, and adds the number of wrong results to `wrong`.
template <Format F, bool lifts>
int products_beside_middles(int& wrong) {
    const PrefixRounder<lifts> round(F);
    constexpr std::int64_t least = std::int64_t{1} << (F.precision - 1);
    int found = 0;
    for (int lost = 1; lost <= 3 * F.precision - 24; ++lost) {
        const int last = -149 - lost, half_of_last = last / 2, apart = F.emin() + 1 - F.precision - last;
        const std::int64_t middle = std::int64_t{1} << (apart - 1), reach = std::int64_t{1} << (lost - 1);
        for (std::int64_t i = least; i < 2 * least; ++i) {
            for (std::int64_t j = i; j < 2 * least; ++j) {
                const std::int64_t beside = (i * j & (2 * middle - 1)) - middle;
                if (beside == 0 || std::abs(beside) >= reach) continue;
                const Float<F> a(std::ldexp(static_cast<double>(i), half_of_last)),
                    b(std::ldexp(static_cast<double>(j), last - half_of_last));
                ++found;
                wrong += round.product(float(a), float(b)) != float(a * b);
            }
        }
    }
    return found;
}

/// Returns a matrix of numbers of F. Most of them have moderate size. Some are zeros of both signs or arbitrary codes,
/// which include Inf and NaN if `wild`.
template <Format F>
Matrix drawn(std::int64_t n, std::uint64_t seed, bool wild) {
    std::mt19937_64 random(seed);
    Matrix a(n);
    for (double& x : a.values) {
        const std::uint64_t kind = random() % 64;
        if (kind == 0) {
            x = random() % 2 == 0 ? 0.0 : F.has_negative_zero() ? -0.0 : 0.0;
        } else if (kind < 6) {
            x = double(Float<F>::from_bits((random() & (F.sign_bit() | F.magnitude_mask())) << F.padding));
            if (!wild && !std::isfinite(x)) x = 1;
        } else {
            x = double(Float<F>(std::ldexp(static_cast<double>(random() >> 11), -53) * 2 - 1));
        }
    }
    return a;
}

/// Compares LU in panels of `block` columns with the definition, which has no panels. The updates are computed in F,
/// with one rounding if `fused`, and otherwise with separate roundings of product and difference.
template <Format F>
void compare_with_definition(std::int64_t n, bool wild, bool fused, std::int64_t block = 0) {
    ThreadPool pool(1);
    int compared = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const Matrix a = drawn<F>(n, seed, wild);
        std::vector<Float<F>> expected;
        for (const double x : a.values) expected.push_back(Float<F>(x));
        std::vector<std::int64_t> rows;
        const bool is_regular = definition::lu(n, expected.data(), rows, true, fused);
        for (const Simd simd : available_simd()) {
            CAPTURE(F.bits, F.precision, seed, simd_name(simd), wild, fused, block);
            const LuPlan plan{.format = F, .fused = fused, .block = block, .operands = F, .accumulator = F};
            const Factors factors = factor_lu(a, plan, pool, simd);
            const bool is_finite =
                is_regular && std::all_of(expected.begin(), expected.end(), [](const auto& x) { return isfinite(x); });
            CHECK(factors.is_regular == is_finite);
            // If a panel fails, the panels after it are not computed.
            if (!is_finite && block > 0 && block < n) continue;
            ++compared;
            CHECK(factors.rows == rows);
            std::size_t different = 0;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                const double x = factors.lu.values[i];
                const bool both_nan = x != x && isnan(expected[i]);
                different +=
                    !both_nan && std::bit_cast<std::uint64_t>(x) != std::bit_cast<std::uint64_t>(double(expected[i]));
            }
            CHECK(different == 0);
        }
    }
    CHECK(compared > 0);
}

Matrix uniform_rounded(std::int64_t n, const Format& format) {
    CastCounts counts;
    return cast_matrix(make_matrix(parse_matrix("uniform"), n, 0), {}, format, counts);
}

}  // namespace

TEST_CASE("LU kernels give the same bits as loops over Float, on every instruction set", "[analysis][lu]") {
    for (const bool wild : {false, true}) {
        compare_with_definition<fp16>(21, wild, false);
        compare_with_definition<bf16>(21, wild, false);
        compare_with_definition<tf32>(21, wild, false);
        compare_with_definition<e4m3fn>(21, wild, false);
        compare_with_definition<e5m2>(21, wild, false);
        compare_with_definition<e4m3fnuz>(21, wild, false);
        compare_with_definition<e2m3fn>(21, wild, false);
        compare_with_definition<fp32>(21, wild, false);
        compare_with_definition<fp64>(21, wild, false);
    }
}

// If the matrix is a single panel, the results must agree even if a pivot fails. The sizes leave incomplete vectors and
// tiles.
TEST_CASE("LU in panels gives the same bits as loops over Float, on every instruction set", "[analysis][lu]") {
    const auto compare = [&]<Format F>() {
        for (const bool wild : {false, true}) {
            compare_with_definition<F>(53, wild, false, 64);
            compare_with_definition<F>(21, wild, true, 21);
        }
        compare_with_definition<F>(53, false, false, 16);
        compare_with_definition<F>(75, false, false, 37);
    };
    compare.template operator()<fp16>();
    compare.template operator()<bf16>();
    compare.template operator()<tf32>();
    compare.template operator()<Format{.bits = 13, .precision = 5, .exponent_bias = 127}>();
    compare.template operator()<e5m2>();
    compare.template operator()<e4m3fn>();
    compare.template operator()<e4m3fnuz>();
    compare.template operator()<e3m2fn>();
    compare.template operator()<fp32>();
    compare.template operator()<fp64>();
    // The rows of U next to the first panel have 120 columns. LuPanel computes 96 columns at a time, so these rows have
    // a complete and an incomplete block.
    compare_with_definition<fp16>(140, false, false, 20);
    compare_with_definition<bf16>(140, false, false, 20);
}

TEST_CASE("operations through fp32 are correctly rounded in formats that have fp32's exponents and fewer digits",
          "[analysis][lu]") {
    compare_operations_in_float<bf16, false>(40000);
    compare_operations_in_float<tf32, true>(40000);
    constexpr Format nine{.bits = 17, .precision = 9, .exponent_bias = 127};
    compare_operations_in_float<nine, true>(40000);
    int wrong = 0;
    CHECK(products_beside_middles<tf32, true>(wrong) > 100);
    CHECK(products_beside_middles<nine, true>(wrong) > 1);
    CHECK(wrong == 0);
    CHECK(products_beside_middles<tf32, false>(wrong) > 100);
    CHECK(wrong > 10);  // without lifting, products are rounded twice
    CHECK(is_prefix_of_fp32(bf16));
    CHECK(is_prefix_of_fp32(tf32));
    for (const Format& other : {fp16, e5m2, e4m3fn, e8m0fnu, fp32, fp64}) CHECK_FALSE(is_prefix_of_fp32(other));
}

TEST_CASE("LU of subnormal numbers gives the same bits as loops over Float", "[analysis][lu]") {
    ThreadPool pool(1);
    const auto compare = [&]<Format F>() {
        for (int below = -2; below < F.precision; below += 3) {
            Matrix a = make_matrix(parse_matrix("uniform"), 17, 3);
            std::vector<Float<F>> expected;
            for (double& x : a.values) {
                expected.push_back(Float<F>(std::ldexp(x, F.emin() - below)));
                x = double(expected.back());
            }
            std::vector<std::int64_t> rows;
            definition::lu(a.n, expected.data(), rows);
            for (const Simd simd : available_simd()) {
                CAPTURE(F.precision, below, simd_name(simd));
                const Factors factors = factor_lu(a, {.format = F}, pool, simd);
                CHECK(factors.rows == rows);
                std::size_t different = 0;
                for (std::size_t i = 0; i < expected.size(); ++i)
                    different += factors.lu.values[i] != double(expected[i]);
                CHECK(different == 0);
            }
        }
    };
    compare.template operator()<fp16>();
    compare.template operator()<bf16>();
    compare.template operator()<tf32>();
    compare.template operator()<e4m3fn>();
}

TEST_CASE("fused LU kernels give the same bits as loops with fma over Float", "[analysis][lu]") {
    compare_with_definition<fp16>(13, true, true);
    compare_with_definition<bf16>(13, true, true);
    compare_with_definition<tf32>(13, false, true);
    compare_with_definition<e4m3fn>(13, true, true);
    compare_with_definition<fp32>(13, true, true);
    compare_with_definition<fp64>(13, true, true);
}

TEST_CASE("LU that reuses the memory of earlier factors gives the same factors", "[analysis][lu]") {
    ThreadPool pool(1);
    for (const Format& format : {fp16, bf16, fp32, fp64}) {
        for (const bool fused : {false, true}) {
            const LuPlan plan{.format = format, .fused = fused};
            Factors earlier;
            for (const std::int64_t n : {24, 40, 17, 1}) {
                CAPTURE(format_name(format), fused, n);
                const Matrix a = uniform_rounded(n, format);
                const Factors fresh = factor_lu(a, plan, pool);
                earlier = factor_lu(a, plan, pool, chosen_simd(), std::move(earlier));
                CHECK(earlier.lu == fresh.lu);
                CHECK(earlier.rows == fresh.rows);
                CHECK(earlier.is_regular == fresh.is_regular);
            }
        }
    }
}

TEST_CASE("LU of a uniform matrix has the published codes and errors", "[analysis][lu]") {
    ThreadPool pool(2);
    const Matrix a = uniform_rounded(256, fp16);
    const Factors factors = factor_lu(a, {.format = fp16}, pool);
    CHECK(hash_of_codes(fp16, factors.lu.values) == 0x4011e466f886be46);
    CHECK(factors.lu(0, 0) == Approx(-0.997070312).epsilon(1e-8));
    CHECK(factors.lu(255, 255) == Approx(5.51171875));

    struct Case {
        std::int64_t n;
        double right, blocked, stored_wide, bfloat;
    };
    // The slow test has n = 512.
    const Case c =
        GENERATE(Case{32, 1.441e-3, 1.441e-3, 1.923e-7, 1.156e-2}, Case{64, 2.234e-3, 1.864e-3, 9.464e-4, 1.963e-2},
                 Case{128, 4.221e-3, 2.626e-3, 1.883e-3, 3.641e-2}, Case{256, 7.986e-3, 4.134e-3, 3.936e-3, 6.148e-2});
    CAPTURE(c.n);
    const Matrix half = uniform_rounded(c.n, fp16), brain = uniform_rounded(c.n, bf16);
    const LuPlan blocked{.format = fp16, .block = 32, .operands = fp16, .accumulator = fp32};
    const LuPlan wide{.format = fp32, .block = 32, .operands = fp16, .accumulator = fp32};
    const auto error = [&](const Matrix& m, const LuPlan& plan) { return lu_error(m, factor_lu(m, plan, pool)); };
    CHECK(error(half, {.format = fp16}) == Approx(c.right).epsilon(5e-4));
    CHECK(error(half, blocked) == Approx(c.blocked).epsilon(5e-4));
    CHECK(error(half, wide) == Approx(c.stored_wide).epsilon(5e-4));
    CHECK(error(brain, {.format = bf16}) == Approx(c.bfloat).epsilon(5e-4));
}

TEST_CASE("an LU update on the machine fp32.chain equals an update with an fp32 accumulator", "[analysis][lu]") {
    ThreadPool pool(2);
    const Matrix a = uniform_rounded(70, fp16);
    LuPlan in_format{.format = fp16, .block = 32, .operands = fp16, .accumulator = fp32};
    LuPlan on_machine = in_format;
    on_machine.rule = MatmulRule{.machine = &fp32_chain};
    const Factors expected = factor_lu(a, in_format, pool), got = factor_lu(a, on_machine, pool);
    CHECK(got.rows == expected.rows);
    CHECK(got.lu == expected.lu);
    // Another machine adds in a different order. The difference shows in fp32 factors; a rounding to fp16 would hide
    // it. One thread gives the same bits as two.
    const Matrix wide = uniform_rounded(70, fp32);
    in_format.format = on_machine.format = fp32;
    on_machine.rule = MatmulRule{.machine = find_machine("sm90.wgmma.fp16")};
    ThreadPool one(1);
    const Factors unit = factor_lu(wide, on_machine, pool);
    CHECK_FALSE(unit.lu == factor_lu(wide, in_format, pool).lu);
    CHECK(unit.lu == factor_lu(wide, on_machine, one).lu);
}

TEST_CASE("LU of a permutation is exact, and LU of a singular matrix is reported as such", "[analysis][lu]") {
    ThreadPool pool(1);
    Matrix permutation(7);
    for (std::int64_t i = 0; i < 7; ++i) permutation(i, (3 * i + 2) % 7) = 1;
    const Factors factors = factor_lu(permutation, {.format = e4m3fn}, pool);
    CHECK(factors.is_regular);
    CHECK(lu_error(permutation, factors) == 0);
    Matrix singular(3);
    singular.values = {1, 2, 3, 2, 4, 6, 1, 1, 1};
    CHECK_FALSE(factor_lu(singular, {.format = fp16}, pool).is_regular);
    singular.values[4] = std::nan("");
    CHECK_FALSE(factor_lu(singular, {.format = fp16}, pool).is_regular);
    Matrix overflowing(2);
    overflowing.values = {0x1p-14, 60000, 0x1p-14, -60000};
    CHECK_FALSE(factor_lu(overflowing, {.format = fp16}, pool).is_regular);
}

TEST_CASE("multiplying a matrix by a power of two leaves L unchanged and multiplies U", "[analysis][lu]") {
    ThreadPool pool(1);
    const Matrix a = uniform_rounded(40, fp16);
    Matrix scaled = a;
    for (double& x : scaled.values) x *= 8;
    const Factors before = factor_lu(a, {.format = fp16}, pool), after = factor_lu(scaled, {.format = fp16}, pool);
    CHECK(before.rows == after.rows);
    for (std::int64_t i = 0; i < 40; ++i) {
        for (std::int64_t j = 0; j < 40; ++j) CHECK((j < i ? 1 : 8) * before.lu(i, j) == after.lu(i, j));
    }
}

TEST_CASE("two-sided scaling keeps elements in the range of fp16 that leave the range without scaling",
          "[analysis][scale]") {
    struct Case {
        double spread;
        std::int64_t overflow, underflow, subnormal;
        bool plain_ok;
        std::int64_t scalar_underflow, scalar_subnormal;
        bool scalar_ok;
    };
    const Case c =
        GENERATE(Case{20, 0, 66, 2126, true, 491, 3276, true}, Case{40, 869, 1654, 1984, false, 6352, 1921, false});
    CAPTURE(c.spread);
    Matrix a = make_matrix(parse_matrix("randsvd:100"), 100, 0);
    const auto exponent = [&](std::int64_t side, std::int64_t i) {
        return static_cast<int>(std::rint(c.spread * (unit_draw(Operand::a, 7, side, i) - 0.5)));
    };
    for (std::int64_t i = 0; i < 100; ++i) {
        for (std::int64_t j = 0; j < 100; ++j) a(i, j) = std::ldexp(a(i, j), exponent(0, i) + exponent(1, j));
    }
    ThreadPool pool(1);
    const auto cast = [&](Scale scale, CastCounts& counts) {
        const Equilibration scaling = equilibrate(a, fp16, scale);
        if (scale == Scale::two_sided) CHECK(scaling.mu == 12);
        return factor_lu(cast_matrix(a, scaling, fp16, counts), {.format = fp16}, pool).is_regular;
    };
    CastCounts plain, scalar, two_sided;
    CHECK(cast(Scale::none, plain) == c.plain_ok);
    CHECK(plain.overflow == c.overflow);
    CHECK(plain.underflow == c.underflow);
    CHECK(plain.to_subnormal == c.subnormal);
    CHECK(cast(Scale::scalar, scalar) == c.scalar_ok);
    CHECK(scalar.underflow == c.scalar_underflow);
    CHECK(scalar.to_subnormal == c.scalar_subnormal);
    CHECK(cast(Scale::two_sided, two_sided));
    CHECK(two_sided.underflow == 0);
    CHECK(two_sided.to_subnormal == 0);
}

TEST_CASE("LU of 512 rows has the published errors", "[analysis][lu][slow]") {
    ThreadPool pool(2);
    const Matrix half = uniform_rounded(512, fp16), brain = uniform_rounded(512, bf16);
    const auto error = [&](const Matrix& m, const LuPlan& plan) { return lu_error(m, factor_lu(m, plan, pool)); };
    CHECK(error(half, {.format = fp16}) == Approx(1.439e-2).epsilon(5e-4));
    CHECK(error(half, {.format = fp16, .block = 32, .operands = fp16, .accumulator = fp32}) ==
          Approx(5.221e-3).epsilon(5e-4));
    CHECK(error(half, {.format = fp32, .block = 32, .operands = fp16, .accumulator = fp32}) ==
          Approx(7.523e-3).epsilon(5e-4));
    CHECK(error(brain, {.format = bf16}) == Approx(1.105e-1).epsilon(5e-4));
}

}  // namespace lu_test
