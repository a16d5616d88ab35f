// SPDX-License-Identifier: Apache-2.0
// Computes textbook formulas with Float<F> and compares the results with published figures. Some of the formulas lose
// digits to cancellation. Rearranged formulas do not.
#include "core/types/float.hpp"
#include "experiments/study/operands.hpp"
#include "tests/test.hpp"

#include <array>
#include <cmath>
#include <vector>

namespace float_formulas_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::study;

namespace {

/// Returns the small root of x^2 + b x + 1 for b > 0, by the textbook formula and by a formula without cancellation.
template <class Number>
std::array<double, 2> small_root(double at) {
    const Number b(at), root = sqrt(b * b - Number(4)), two(2);
    return {double((-b + root) / two), double(two / (-b - root))};
}

/// Returns the variance of 1000 numbers near c by three formulas: the sum of squares minus the square of the sum, the
/// two-pass formula that subtracts the mean first, and Welford's formula.
template <class Number>
std::array<double, 3> variance(double c) {
    constexpr int n = 1000;
    std::vector<Number> x;
    for (int i = 0; i < n; ++i)
        x.push_back(Number(c + drawn_wide_element(Distribution::positive, Operand::a, 0, 0, i, 1)));
    const Number count(n), less(n - 1);
    Number sum(0), squares(0);
    for (const Number each : x) {
        sum = sum + each;
        squares = squares + each * each;
    }
    const Number textbook = (squares - sum * sum / count) / less, mean = sum / count;
    Number apart(0);
    for (const Number each : x) apart = apart + (each - mean) * (each - mean);
    Number running(0), moments(0);
    for (int i = 0; i < n; ++i) {
        const Number each = x[static_cast<std::size_t>(i)], off = each - running;
        running = running + off / Number(i + 1);
        moments = moments + off * (each - running);
    }
    return {double(textbook), double(apart / less), double(moments / less)};
}

/// Evaluates the expanded polynomial (x - 2)^9 near 2 by Horner's rule and by the compensated Horner's rule (Graillat,
/// Langlois, Louvet). Returns the largest error of each.
template <class Number>
std::array<double, 2> horner() {
    const int coefficients[] = {1, -18, 144, -672, 2016, -4032, 5376, -4608, 2304, -512};
    std::array<double, 2> most{};
    for (int i = 0; i <= 200; ++i) {
        const Number x(1.9 + 0.001 * i);
        Number sum(coefficients[0]), correction(0);
        for (int k = 1; k < 10; ++k) {
            const Number product = sum * x, of_product = fma(sum, x, -product);
            const Number c(coefficients[k]), next = product + c, back = next - product;
            const Number of_sum = (product - (next - back)) + (c - back);
            correction = correction * x + (of_product + of_sum);
            sum = next;
        }
        const double exact = std::pow(double(x) - 2, 9);
        most[0] = std::max(most[0], std::fabs(double(sum) - exact));
        most[1] = std::max(most[1], std::fabs(double(sum + correction) - exact));
    }
    return most;
}

}  // namespace

TEST_CASE("the textbook formula loses the digits of the small root of a quadratic, and a rearranged formula does not",
          "[analysis][formulas]") {
    CHECK(small_root<Float<fp32>>(0x1p8)[0] == -0.00390625);
    CHECK(small_root<Float<fp32>>(0x1p8)[1] == Approx(-0.0039063096).epsilon(1e-8));
    CHECK(small_root<Float<fp32>>(0x1p14)[0] == 0);
    CHECK(small_root<Float<fp32>>(0x1p14)[1] == Approx(-6.10351562e-05).epsilon(1e-8));
    const auto half = small_root<Float<fp16>>(0x1p8);
    CHECK(half[0] == HUGE_VAL);
    CHECK((half[1] == 0 && std::signbit(half[1])));
}

TEST_CASE("three formulas for the variance give the published values if every operation is rounded",
          "[analysis][formulas]") {
    const auto single = variance<Float<fp32>>(100), brain = variance<Float<bf16>>(0), half = variance<Float<fp16>>(10);
    CHECK(single[0] == Approx(0.0610611).epsilon(1e-5));
    CHECK(single[1] == Approx(0.0840881).epsilon(1e-6));
    CHECK(single[2] == Approx(0.0840882).epsilon(1e-6));
    CHECK(brain[0] == Approx(0.19043).epsilon(1e-4));
    CHECK(brain[1] == Approx(0.129883).epsilon(1e-5));
    CHECK(brain[2] == Approx(0.0639648).epsilon(1e-5));
    CHECK(std::isnan(half[0]));
    CHECK(half[1] == Approx(0.141357).epsilon(1e-5));
    CHECK(half[2] == Approx(0.0834961).epsilon(1e-5));
    CHECK(variance<double>(100)[2] == Approx(0.084088).epsilon(1e-5));
}

TEST_CASE("Horner's rule and its compensated form have the published errors for an expanded power",
          "[analysis][formulas]") {
    const auto single = horner<Float<fp32>>(), half = horner<Float<fp16>>();
    CHECK(single[0] == Approx(5.615e-3).epsilon(1e-3));
    CHECK(single[1] == Approx(9.309e-10).epsilon(1e-3));
    CHECK(half[0] == Approx(46.25).epsilon(1e-6));
    CHECK(half[1] == Approx(0.0625).epsilon(1e-3));
}

}  // namespace float_formulas_test
