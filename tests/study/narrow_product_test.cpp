// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/narrow_product.hpp"
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/study/product/machine_product.hpp"
#include "experiments/study/product/residue_product.hpp"
#include "experiments/study/product/via.hpp"
#include "experiments/study/solve/gallery.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <string>

namespace narrow_product_test {

using namespace macheps;
using namespace macheps::study;

namespace {

/// Returns operands of an 8 x 8 x 256 product. Within a row of a or a column of b, the magnitudes differ by factors of
/// up to 2^(8 * spread).
WideOperands spread_operands(double spread) {
    WideOperands x{.m = 8, .n = 8, .k = 256, .a = std::vector<double>(8 * 256), .b = std::vector<double>(8 * 256)};
    const auto element = [spread](Operand operand, std::int64_t outer, std::int64_t p) {
        const double size = std::rint(8 * spread * (unit_draw(operand, 1, outer, p) - 0.5));
        return std::ldexp(unit_draw(operand, 0, outer, p) - 0.5, static_cast<int>(size));
    };
    for (std::int64_t i = 0; i < 8; ++i) {
        for (std::int64_t p = 0; p < 256; ++p) {
            x.a[static_cast<std::size_t>(i * 256 + p)] = element(Operand::a, i, p);
            x.b[static_cast<std::size_t>(p * 8 + i)] = element(Operand::b, i, p);
        }
    }
    return x;
}

NarrowProduct made(const char* machine, int slices, int bits, const WideOperands& x, bool full = false,
                   bool exactly = false) {
    CpuBackend backend(1);
    return narrow_product(backend,
                          {.via = parse_via("ozaki1:" + std::to_string(slices)),
                           .machine = parse_machine(machine),
                           .digit_bits = bits,
                           .full = full,
                           .combines_exactly = exactly},
                          x);
}

double error_of(const char* machine, int slices, int bits, const WideOperands& x) {
    const NarrowProduct product = made(machine, slices, bits, x);
    CHECK(*product.inexact == 0);
    CHECK(product.products == slices * (slices + 1) / 2);
    return wide_errors(x, product.out).max_error;
}

}  // namespace

TEST_CASE("digits of split operands have as many bits as the machine can sum exactly", "[analysis][via]") {
    struct Case {
        const char* machine;
        int bits[4];  // at k = 64, 256, 1024, 4096
    };
    const Case c =
        GENERATE(Case{"sm90.wgmma.fp16", {10, 9, 8, 7}}, Case{"sm90.wgmma.bf16", {9, 9, 8, 7}},
                 Case{"sm100.tcgen05.fp8", {5, 5, 5, 5}}, Case{"sm90.wgmma.fp8", {5, 4, 3, 2}},
                 Case{"sm90.wgmma.fp8+promote64", {5, 5, 5, 5}}, Case{"sm90.wgmma.fp8+promote128", {5, 4, 4, 4}});
    CAPTURE(c.machine);
    const SpelledRule machine = parse_machine(c.machine);
    for (int i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(exact_digit_bits(machine, std::int64_t{64} << (2 * i)) == c.bits[i]);
    }
    CHECK(exact_digit_bits(parse_machine("sm90.wgmma.fp8+promote64"), 1 << 16) == 5);
    CHECK(exact_digit_bits(parse_machine("sm90.wgmma.fp8+promote64"), 1 << 17) == 4);
    CHECK(exact_digit_bits(parse_machine("sm90.wgmma.fp8+promote128"), 1 << 18) == 4);
}

TEST_CASE("sums of digit products are exact if digits have as many bits as the rule allows, and not if they have more",
          "[analysis][via]") {
    // All digits have the same sign, so the sums are as large as the rule allows.
    const WideOperands x = wide_operands(fp64, Distribution::positive, 0, 1, 4, 4, 256);
    CHECK(*made("sm90.wgmma.fp8", 14, 4, x).inexact == 0);
    CHECK(*made("sm90.wgmma.fp8", 11, 5, x).inexact > 0);
    CHECK(*made("sm90.wgmma.fp8+promote64", 11, 5, x).inexact == 0);
    CHECK(*made("sm90.wgmma.fp16", 6, 9, x).inexact == 0);
    CHECK(*made("sm100.tcgen05.fp8", 11, 5, x).inexact == 0);
    CHECK(made("sm90.wgmma.fp16", 6, 0, x).digit_bits == 9);
}

TEST_CASE("each additional slice reduces the error by one digit, as published", "[analysis][via]") {
    const WideOperands x = spread_operands(0);
    CHECK(wide_errors(x, fp64_chain(x)).max_error == Approx(1.20e-16).epsilon(0.01));
    CHECK(wide_errors(spread_operands(1), fp64_chain(spread_operands(1))).max_error == Approx(4.38e-16).epsilon(0.01));
    CHECK(wide_errors(spread_operands(4), fp64_chain(spread_operands(4))).max_error == Approx(8.02e-16).epsilon(0.01));
    const double by_8[] = {1.1e-3, 5.4e-6, 2.6e-8, 1.3e-10, 5.1e-13, 1.9e-15, 1.9e-17};
    for (int s = 1; s <= 7; ++s) CHECK(error_of("sm90.wgmma.fp16", s, 8, x) == Approx(by_8[s - 1]).epsilon(0.05));
    const double by_5[] = {9.1e-3,  4.2e-4,  1.4e-5,  5.4e-7,  1.5e-8, 5.1e-10,
                           1.4e-11, 5.3e-13, 1.8e-14, 6.2e-16, 2.5e-17};
    for (int s = 1; s <= 11; ++s) {
        CHECK(error_of("sm90.wgmma.fp8+promote64", s, 5, x) == Approx(by_5[s - 1]).epsilon(0.05));
    }
    CHECK(error_of("sm90.wgmma.fp8", 13, 4, x) == Approx(2.2e-16).epsilon(0.05));
    CHECK(error_of("sm90.wgmma.fp8", 14, 4, x) == Approx(2.1e-17).epsilon(0.05));
}

TEST_CASE("with all digits and a single rounding, every output is the correctly rounded product", "[analysis][via]") {
    const double spread = GENERATE(0.0, 1.0, 4.0);
    CAPTURE(spread);
    const WideOperands x = spread_operands(spread);
    const int bits = 8, slices = (53 + static_cast<int>(8 * spread) + bits - 1) / bits + 2;
    const NarrowProduct product = made("sm90.wgmma.fp16", slices, bits, x, true, true);
    CHECK(product.products == slices * slices);
    CHECK(wide_errors(x, product.out).not_correct == 0);
    CHECK(wide_errors(x, fp64_chain(x)).not_correct > 0);
}

TEST_CASE("products built from narrow parts of fp32 numbers are nearly as accurate as fp32 products",
          "[analysis][via]") {
    CpuBackend backend(1);
    const WideOperands x = wide_operands(fp32, Distribution::normal, 3, 1, 6, 5, 200);
    const auto error = [&](const char* via, const char* machine) {
        return wide_errors(x,
                           narrow_product(backend, {.via = parse_via(via), .machine = parse_machine(machine)}, x).out)
            .max_error;
    };
    // Three parts of 8 bits contain all 24 bits, so only the rounding of fp32 sums remains. A single part would have an
    // error of 2^-9 or more.
    CHECK(error("bf16x9", "sm80.mma.bf16") < 0x1p-19);
    CHECK(error("tf32x3", "sm80.mma.tf32") < 0x1p-18);
    CHECK(error("fp16x2", "sm80.mma.fp16") < 0x1p-18);
    CHECK(
        narrow_product(backend, {.via = parse_via("bf16x9"), .machine = parse_machine("sm80.mma.bf16")}, x).products ==
        9);
    CHECK(
        narrow_product(backend, {.via = parse_via("tf32x3"), .machine = parse_machine("sm80.mma.tf32")}, x).products ==
        3);
}

TEST_CASE("rows with a wide range need more slices, and impossible plans are refused", "[analysis][via]") {
    CpuBackend backend(1);
    const auto slices = [&](double spread) {
        return narrow_product(backend, {.via = parse_via("ozaki1:auto"), .machine = parse_machine("sm90.wgmma.fp16")},
                              spread_operands(spread))
            .slices;
    };
    CHECK(slices(0) == 7);
    CHECK(slices(4) > slices(0));
    CHECK_THROWS_AS(parse_via("ozaki1:0"), Error);
    CHECK_THROWS_AS(parse_via("ozaki1:65"), Error);
    CHECK_THROWS_AS(parse_via("ozaki3:15"), Error);
    CHECK_THROWS_AS(made("sm90.wgmma.fp8", 3, 6, spread_operands(0)), Error);
    CHECK_THROWS_AS(narrow_product(backend, {.via = parse_via("bf16x9"), .machine = parse_machine("sm90.wgmma.fp8")},
                                   spread_operands(0)),
                    Error);
}

TEST_CASE("residues have the published moduli, and integers have as many bits as the moduli allow", "[analysis][via]") {
    const std::vector<int> moduli{256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193};
    CHECK(coprime_moduli(16) == moduli);
    CHECK(residue_integer_bits(15, 1024) == 53);
    CHECK(residue_integer_bits(15, 2048) == 52);
    CHECK(residue_integer_bits(14, 64) < 53);
    CHECK(residue_integer_bits(16, 1 << 18) == 53);
    CHECK(residue_integer_bits(2, 1 << 16) == 0);
    CHECK(has_exact_residues(parse_machine("sm90.wgmma.fp16"), 1024));
    CHECK_FALSE(has_exact_residues(parse_machine("sm90.wgmma.fp16"), 1025));
    CHECK(has_exact_residues(parse_machine("sm80.mma.bf16"), 1024));
}

TEST_CASE("products computed from residues equal integer products in 128 bits", "[analysis][via]") {
    const WideOperands x = spread_operands(0);
    const int moduli = GENERATE(8, 12, 15);
    CAPTURE(moduli);
    CpuBackend backend(1);
    const ViaPlan plan{.via = parse_via("ozaki2:" + std::to_string(moduli)),
                       .machine = parse_machine("sm90.wgmma.fp16")};
    const NarrowProduct got = narrow_product(backend, plan, x);
    CHECK(*got.inexact == 0);
    CHECK(got.products == moduli);
    const auto largest = [&](bool of_a, std::int64_t outer) {
        int exponent = 0;
        double most = 0;
        for (std::int64_t p = 0; p < x.k; ++p) {
            most = std::max(most, std::fabs(of_a ? x.a[static_cast<std::size_t>(outer * x.k + p)]
                                                 : x.b[static_cast<std::size_t>(p * x.n + outer)]));
        }
        std::frexp(most, &exponent);
        return exponent;
    };
    std::size_t different = 0;
    for (std::int64_t i = 0; i < x.m; ++i) {
        for (std::int64_t j = 0; j < x.n; ++j) {
            const int of_row = largest(true, i), of_column = largest(false, j), t = got.digit_bits;
            __int128 sum = 0;
            for (std::int64_t p = 0; p < x.k; ++p) {
                const auto a = static_cast<std::int64_t>(
                    std::rint(std::ldexp(x.a[static_cast<std::size_t>(i * x.k + p)], t - of_row)));
                const auto b = static_cast<std::int64_t>(
                    std::rint(std::ldexp(x.b[static_cast<std::size_t>(p * x.n + j)], t - of_column)));
                sum += static_cast<__int128>(a) * b;
            }
            different += got.out[static_cast<std::size_t>(i * x.n + j)] !=
                         std::ldexp(static_cast<double>(sum), of_row + of_column - 2 * t);
        }
    }
    CHECK(different == 0);
    // Rounding to t bits changes a number by at most 2^-t times the largest number of its row or column. The mean
    // magnitude of all numbers is 1/4.
    CHECK(wide_errors(x, got.out).max_error < 64 * std::ldexp(1.0, -got.digit_bits));
    if (moduli == 15) CHECK(wide_errors(x, got.out).max_error < 1.2e-16);
}

TEST_CASE("inexact residue products of a machine that keeps too few bits are counted", "[analysis][via]") {
    const WideOperands x = spread_operands(0);
    CpuBackend backend(1);
    const auto inexact = [&](const char* machine) {
        return *narrow_product(backend, {.via = parse_via("ozaki2:15"), .machine = parse_machine(machine)}, x).inexact;
    };
    CHECK(inexact("sm80.mma.fp16") == 0);
    CHECK(inexact("sm90.wgmma.fp16.acc16") > 0);
    CHECK_THROWS_AS(inexact("sm90.wgmma.fp8"), Error);
}

TEST_CASE("8-bit integers with 32-bit sums give the results of exact floating-point sums", "[analysis][via]") {
    const SpelledRule integers = parse_via_machine("exact.int32");
    CHECK(exact_digit_bits(integers, 1 << 18) == 7);
    CHECK(exact_digit_bits(integers, (1 << 18) + 1) == 6);
    CHECK(exact_digit_bits(integers, std::int64_t{1} << 31) == 0);
    CHECK(has_exact_residues(integers, (1 << 17) - 1));
    CHECK_FALSE(has_exact_residues(integers, 1 << 17));
    const WideOperands x = spread_operands(0);
    CpuBackend backend(1);
    for (const char* way : {"ozaki1:8", "ozaki1:auto", "ozaki2:9", "ozaki2:15"}) {
        CAPTURE(way);
        const NarrowProduct expected = narrow_product(
            backend,
            {.via = parse_via(way), .machine = parse_machine("fp32.chain"), .digit_bits = way[5] == '1' ? 7 : 0}, x);
        const NarrowProduct got = narrow_product(backend, {.via = parse_via(way), .machine = integers}, x);
        CHECK(*got.inexact == 0);
        CHECK(got.digit_bits == expected.digit_bits);
        CHECK(got.products == expected.products);
        CHECK(got.out == expected.out);
    }
}

TEST_CASE("sums of the integer unit wrap around, and the number of these sums is counted", "[analysis][via]") {
    const WideOperands shape{.m = 1, .n = 1, .k = 1 << 18};
    CpuBackend backend(1);
    IntegerProduct multiply(backend, {.machine = &exact_int32}, shape, Format{});
    const auto sum_of = [&](float a, float b, std::size_t terms) {
        std::vector<float> left(1 << 18), right(1 << 18);
        std::fill_n(left.begin(), terms, a);
        std::fill_n(right.begin(), terms, b);
        return multiply(left, right)[0];
    };
    CHECK(sum_of(127, 127, 133144) == 127.0 * 127 * 133144);  // the last sum below 2^31
    CHECK(sum_of(-128, 128, 1 << 17) == -0x1p31);
    CHECK(multiply.inexact() == 0);
    CHECK(sum_of(127, 127, 133145) == 127.0 * 127 * 133145 - 0x1p32);
    CHECK(multiply.inexact() == 1);
}

}  // namespace narrow_product_test
