// SPDX-License-Identifier: Apache-2.0
// Compares the oracle's own arithmetic with the processor's, for the operations that the processor has.
#include "emulation/machine/exact_sum.hpp"
#include "emulation/machine/step.hpp"
#include "tests/machine/distributions.hpp"
#include "tests/machine/ieee.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <cstring>

namespace arithmetic_test {

using namespace macheps::machine_oracle;

namespace {

template <typename Float>
Float float_of(std::uint64_t code) {
    Float x;
    std::memcpy(&x, &code, sizeof x);
    return x;
}

template <typename Float>
std::uint64_t code_of(Float x) {
    std::uint64_t code = 0;
    std::memcpy(&code, &x, sizeof x);
    return code;
}

template <typename Float>
void compare_chain(const char* arch, const char* instr, const char* qual) {
    const Instruction in = find_instruction(arch, instr, qual);
    std::mt19937_64 random(5);
    for (int i = 0; i < static_cast<int>(Class::count); ++i)
        for (int n = 0; n < 200; ++n) {
            const Case c = generate(in, static_cast<Class>(i), random);
            Float d = float_of<Float>(c.c);
            for (std::size_t k = 0; k < c.a.size(); ++k)
                d = std::fma(float_of<Float>(c.a[k]), float_of<Float>(c.b[k]), d);
            CAPTURE(name_of(static_cast<Class>(i)), n);
            REQUIRE(same_result(in, evaluate(in, c.a, c.b, c.c), code_of(d)));
        }
}

}  // namespace

TEST_CASE("chains of fused multiply-adds agree with std::fma on every class of operands", "[machine][oracle]") {
    compare_chain<float>("CDNA1", "mfma", "f32_16x16x4f32");
    compare_chain<double>("sm_90", "mma", "m16n8k16.f64.f64.f64.f64");
    compare_chain<double>("CDNA2", "mfma", "f64_16x16x4f64");
}

TEST_CASE("rounding and decoding agree with the processor's float and double", "[machine][oracle]") {
    const Type &f32 = find_type("f32"), &f64 = find_type("f64");
    std::mt19937_64 random(6);
    for (int i = 0; i < 20000; ++i) {
        // Half of the numbers have exponents in or near the range of float, so that results may be subnormal or
        // overflow.
        const std::uint64_t wide = random(), field = 850 + wide % 350;
        const std::uint64_t code = i % 2 ? wide : (wide & ~(0x7ffull << 52)) | field << 52;
        const double x = float_of<double>(code);
        const Number number = decode(f64, code);
        if (number.kind != Kind::finite) continue;
        CAPTURE(code);
        REQUIRE(ieee_code(real(number), f32, Rounding::nearest_even, 24, 0) == code_of(static_cast<float>(x)));
        REQUIRE(ieee_code(real(number), f64, Rounding::toward_zero, 53, 0) == code);
        const float nearest = static_cast<float>(x);
        const bool beyond = std::fabs(static_cast<double>(nearest)) > std::fabs(x);
        const float cut = beyond && std::isfinite(nearest) ? std::nextafter(nearest, 0.0f) : nearest;
        // For numbers of 2^128 or more, the oracle's rounding towards zero and `cut` both give infinity. Just below
        // 2^128, the right result is the largest float, but `cut` is infinite. These numbers are skipped.
        const bool at_the_top = beyond && std::isinf(nearest) && std::fabs(x) < 0x1p128;
        if (!at_the_top) REQUIRE(ieee_code(real(number), f32, Rounding::toward_zero, 24, 0) == code_of(cut));
    }
}

TEST_CASE("a fused multiply-add rounds once, even if the exact sum is close to a tie", "[machine][oracle]") {
    std::mt19937_64 random(8);
    for (const auto& [name, format] :
         {std::pair{"f16", macheps::fp16}, {"bf16", macheps::bf16}, {"f32", macheps::fp32}}) {
        const Type &type = find_type(name), &f32 = find_type("f32");
        for (int i = 0; i < 20000; ++i) {
            // Let c be a normal number and h half an ulp of c. The product x y has the magnitude (1 + d) (1 - d + e) h,
            // where d and e are at most a few ulps of fp32. With e = 0, the magnitude is h, or differs from h by a
            // relative error of about 2^-46.
            const int field = 8 + static_cast<int>(random() % static_cast<unsigned>(type.max_field() - 16));
            const std::uint64_t c = static_cast<std::uint64_t>(field) << (type.precision - 1) |
                                    (random() & ((std::uint64_t{1} << (type.precision - 1)) - 1)) |
                                    (random() & 1) << (type.bits - 1);
            const int steps = static_cast<int>(random() % 4);
            const float up = 1 + std::ldexp(static_cast<float>(steps), -23),
                        down = 1 - std::ldexp(static_cast<float>(steps), -23);
            const float x = std::ldexp(random() % 2 == 0 ? up : -up, field - type.bias - type.precision);
            const float y = i % 3 == 0 ? std::nextafter(down, i % 2 == 0 ? 0.0f : 2.0f) : down;
            const Exact wanted =
                sum(product(decode(f32, code_of(x)).value, decode(f32, code_of(y)).value), decode(type, c).value);
            CAPTURE(name, c, x, y);
            REQUIRE(macheps::matrix_unit::round_fma(format, x, y, c) ==
                    rounded(wanted, type, Rounding::nearest_even, type.precision));
        }
    }
}

TEST_CASE("rounding an exact sum uses its last bit, however far below the others that bit is", "[machine][oracle]") {
    const Type& f32 = find_type("f32");
    std::mt19937_64 random(9);
    // The sum consists of 2^top, one ulp in half of the cases, half an ulp, and one bit that is `far` places below the
    // half ulp.
    for (const int top : {-100, -3, 0, 31, 32, 33, 100}) {
        for (int far = 1; far <= top - 24 + 298; ++far) {
            macheps::ExactSum made;
            Exact wanted;
            const auto add = [&](bool negative, int exponent) {
                made.add(negative, 1, exponent);
                wanted = sum(wanted, {negative ? -1 : 1, exponent});
            };
            const bool is_negative = random() % 2 == 0;
            add(is_negative, top);
            if (random() % 2 == 0) add(is_negative, top - 23);
            add(is_negative, top - 24);
            add(random() % 2 == 0, top - 24 - far);
            CAPTURE(top, far, is_negative);
            REQUIRE(macheps::detail::encode_unpacked(macheps::fp32, made.value(), macheps::Round::nearest_even,
                                                     macheps::Overflow::nonsaturate, {}) ==
                    rounded(wanted, f32, Rounding::nearest_even, f32.precision));
        }
    }
}

TEST_CASE("CDNA2 agrees with plain fp32 arithmetic if no number is subnormal", "[machine][oracle]") {
    const Instruction in = find_instruction("CDNA2", "mfma", "f32_16x16x16bf16_1k");
    std::mt19937_64 random(8);
    int compared = 0;
    for (int n = 0; n < 4000; ++n) {
        const Case c = generate(in, n % 2 ? Class::normal : Class::close_exponents, random);
        bool is_normal = true;
        const auto seen = [&](float x) {
            is_normal = is_normal && (x == 0 || std::isnormal(x));
            return x;
        };
        const auto p = [&](std::size_t k) {
            return seen(seen(float_of<float>(c.a[k] << 16)) * seen(float_of<float>(c.b[k] << 16)));
        };
        float d = seen(float_of<float>(c.c));
        for (std::size_t k = 0; k < 16; k += 4) d = seen(d + seen(seen(p(k) + p(k + 1)) + seen(p(k + 2) + p(k + 3))));
        if (!is_normal) continue;
        ++compared;
        CAPTURE(n);
        REQUIRE(evaluate(in, c.a, c.b, c.c) == code_of(d));
    }
    CHECK(compared > 2000);
}

}  // namespace arithmetic_test
