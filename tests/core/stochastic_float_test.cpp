// SPDX-License-Identifier: Apache-2.0
// Tests arithmetic with stochastic rounding, which draws random words from a stream: the bits of each result, the
// number of words drawn, and the mean of many results.
#include "core/types/stochastic_float.hpp"

#include "tests/test.hpp"

#include <cmath>

namespace stochastic_float_test {

using namespace macheps;

TEMPLATE_TEST_CASE("stochastic arithmetic draws one word per operation and agrees with op() on that word",
                   "[core][float]", Float<bf16>, Float<fp16>, Float<e4m3fn>, Float<e5m2>, Float<fp32>) {
    constexpr Format f = TestType::format;
    RandomStream stream{.key = {.seed = 5}};
    for (std::uint64_t i = 0; i < 500; ++i) {
        const auto code = [&](std::uint32_t site) { return random_bits({.seed = 9, .site = site}, i) & 0x3fffffff; };
        const auto a = TestType::from_bits(code(1)), b = TestType::from_bits(code(2)), c = TestType::from_bits(code(3));
        const std::uint64_t first = stream.element;
        const TestType results[] = {add(a, b, stream), sub(a, b, stream), mul(a, b, stream),
                                    div(a, b, stream), sqrt(a, stream),   fma(a, b, c, stream)};
        constexpr Operation operations[] = {Operation::add, Operation::sub,  Operation::mul,
                                            Operation::div, Operation::sqrt, Operation::fma};
        CHECK(stream.element == first + 6);  // one word per operation
        for (std::uint64_t k = 0; k < 6; ++k) {
            const RandomBits word{random_bits(stream.key, first + k), 32};
            const std::uint64_t bits =
                op(operations[k], f, a.bits(), b.bits(), c.bits(), Round::stochastic, Overflow::nonsaturate, word).bits;
            CHECK(results[k].bits() == bits);
        }
    }
}

TEST_CASE("stochastic rounding has no bias, and a sum of small terms does not stall", "[core][float]") {
    RandomStream stream{.key = {.seed = 1}};
    double sum = 0;
    const int count = 20000;
    for (int i = 0; i < count; ++i) sum += double(rounded<bf16>(1.001, stream));
    // Each result is 1 or 1 + 2^-7, with a standard deviation below 2^-8. The mean of all results has a standard
    // deviation below 2^-15.
    CHECK(std::fabs(sum / count - 1.001) < 4 * 0x1p-15);
    Float<bf16> nearest, drawn;
    const Float<bf16> term(0x1p-10);
    for (int i = 0; i < 4096; ++i) {
        nearest = nearest + term;
        drawn = add(drawn, term, stream);
    }
    CHECK(double(nearest) == 0.25);  // the term is half an ulp of 0.25
    CHECK(std::fabs(double(drawn) - 4) < 0.5);
    // A stream is a value: a copy draws the same words again.
    RandomStream one{.key = {.seed = 2}}, two = one;
    CHECK(rounded<e5m2>(0.3, one) == rounded<e5m2>(0.3, two));
    static_assert([] {
        RandomStream constant{.key = {.seed = 3}};
        const Float<bf16> third = div(Float<bf16>(1), Float<bf16>(3), constant);
        return constant.element == 1 && double(third) > 0.33 && double(third) < 0.335;
    }());
}

}  // namespace stochastic_float_test
