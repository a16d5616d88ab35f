// SPDX-License-Identifier: Apache-2.0
// Tests the traces of machines: the parts that a step keeps give its result, and the steps give that of the instruction.
#include "emulation/machine/trace.hpp"
#include "core/codec.hpp"
#include "core/rng.hpp"
#include "emulation/machine/step.hpp"
#include "emulation/machine/table.hpp"
#include "tests/test.hpp"

#include <cmath>

namespace trace_test {

using namespace macheps;

namespace {

/// Returns the code of a sum that a machine delivers, from the rounding functions of core.
std::uint64_t delivered(Delivery delivery, double sum) {
    constexpr Overflow overflow = Overflow::nonsaturate;
    switch (delivery) {
        case Delivery::fp32_toward_zero:
            return encode64(fp32, sum, Round::toward_zero, overflow);
        case Delivery::e8m13_toward_zero:
            return encode64(fp32, sum, Round::toward_zero, overflow) & ~std::uint64_t{0x3ff};
        case Delivery::fp16_nearest_even:
            return encode64(fp16, sum, Round::nearest_even, overflow);
        case Delivery::bf16_nearest_even:
            return encode64(bf16, sum, Round::nearest_even, overflow);
        case Delivery::fp64_nearest_even:
            return encode64(fp64, sum, Round::nearest_even, overflow);
        default:
            return encode64(fp32, sum, Round::nearest_even, overflow);
    }
}

/// Returns a code of a number between 2^-6 and 2^6, whose significand is random.
std::uint64_t drawn(const Format& format, std::uint64_t index) {
    const PhiloxBlock block = random_block({.seed = 7}, index);
    const double size = std::ldexp(1 + block.word[0] * 0x1p-32, static_cast<int>(block.word[1] % 12) - 6);
    return encode64(format, block.word[2] % 2 == 0 ? size : -size, Round::nearest_even, Overflow::nonsaturate);
}

Format first_format(const Machine& machine) {
    for (const Format& format : FormatSet::known) {
        if (machine.operands.contains(format)) return format;
    }
    return fp32;
}

}  // namespace

TEST_CASE("the parts that a step of a matrix unit keeps give its result, and the steps that of the instruction",
          "[machine][trace]") {
    int truncated = 0, without_cuts = 0, refused = 0;
    for (const Machine* machine : all_machines) {
        CAPTURE(machine->name);
        const Format format = first_format(*machine);
        std::uint64_t index = 0;
        for (int trial = 0; trial < 20; ++trial) {
            std::vector<std::uint64_t> a, b;
            for (int i = 0; i < machine->k; ++i) {
                a.push_back(drawn(format, index++));
                b.push_back(drawn(format, index++));
            }
            const std::uint64_t c = drawn(machine->addend, index++);
            const auto steps = trace_products(*machine, format, format, a, b, c);
            if (!steps) {
                refused += trial == 0 ? 1 : 0;
                break;
            }
            std::vector<Factor> x, y;
            for (int i = 0; i < machine->k; ++i) {
                x.push_back(factor_of_code(format, a[static_cast<std::size_t>(i)]));
                y.push_back(factor_of_code(format, b[static_cast<std::size_t>(i)]));
            }
            REQUIRE(steps->back().code == matrix_instruction(machine->sum, machine->k, x.data(), y.data(), c));
            if (!steps->front().sum) {
                without_cuts += trial == 0 ? 1 : 0;
                continue;
            }
            truncated += trial == 0 ? 1 : 0;
            for (const TracedStep& step : *steps) {
                REQUIRE(step.code == delivered(machine->sum.delivery, *step.sum));
                const double unit = std::ldexp(1.0, *step.unit_exponent);
                double sum = *step.addend_kept;
                for (const TracedTerm& term : step.terms) {
                    REQUIRE(std::fabs(term.product - *term.kept) < unit);
                    REQUIRE(std::fabs(*term.kept) <= std::fabs(term.product));
                    REQUIRE(std::fmod(*term.kept, unit) == 0);
                    sum += *term.kept;
                }
                REQUIRE(sum == *step.sum);
            }
        }
    }
    CHECK(truncated > 25);
    CHECK(without_cuts > 10);
    CHECK(refused > 5);
}

TEST_CASE("a traced step of Hopper's fp8 cuts each product to the spacing of the accumulator", "[machine][trace]") {
    const Machine& hopper = *find_machine("sm90.wgmma.fp8");
    const std::vector<std::uint64_t> quarter{encode64(e4m3fn, 0.25, Round::nearest_even, Overflow::nonsaturate)};
    const auto code = [](float x) { return encode64(fp32, x, Round::nearest_even, Overflow::nonsaturate); };
    // 1024 has the exponent 10, so the unit is 2^(10 - 13). The product 1/16 is smaller, and nothing of it is kept.
    const auto steps = trace_products(hopper, e4m3fn, e4m3fn, quarter, quarter, code(1024));
    REQUIRE(steps.has_value());
    REQUIRE(steps->size() == 1);
    CHECK(steps->front().terms.size() == 32);
    CHECK(steps->front().unit_exponent == -3);
    CHECK(steps->front().terms[0].product == 0.0625);
    CHECK(steps->front().terms[0].kept == 0.0);
    CHECK(steps->front().result == 1024);
    // An infinite operand has no exponent, and the result is infinite.
    const auto infinite = trace_products(*find_machine("sm80.mma.fp16"), fp16, fp16, std::vector<std::uint64_t>{0x7c00},
                                         std::vector<std::uint64_t>{0x3c00}, 0);
    REQUIRE(infinite.has_value());
    CHECK_FALSE(infinite->front().unit_exponent.has_value());
    CHECK(std::isinf(infinite->back().result));
}

}  // namespace trace_test
