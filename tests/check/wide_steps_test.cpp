// SPDX-License-Identifier: Apache-2.0
// A check computes exact results (references) in double-double operations on whole rows. This file tests the vector
// code of these operations. It must give the same bits as the scalar code, for every instruction set of this CPU.
#include "experiments/check/truth/wide_steps.hpp"
#include "tests/test.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace wide_steps_test {

using namespace macheps;
using check::Wide;

namespace {

/// Returns numbers of all magnitudes. A number is the sum of two fp64 numbers, `high` and `low`. In about half of the
/// numbers, `low` is not 0. The numbers include zeros, infinities, NaN, and numbers whose results overflow.
std::vector<Wide> numbers(std::size_t count, std::mt19937_64& random, double spread) {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    const double rare[] = {0.0, -0.0, inf, -inf, nan, 1e308, -1e308, 5e-324, 709.9, -745.5, 0.35, 6, 22, -22.5, 5.99};
    std::normal_distribution<double> normal;
    std::vector<Wide> all(count);
    for (Wide& x : all) {
        x.high =
            random() % 16 == 0 ? rare[random() % std::size(rare)] : normal(random) * std::exp2(normal(random) * spread);
        if (random() % 2 == 0 && std::isfinite(x.high)) x.low = x.high * 0x1p-54 * normal(random);
    }
    return all;
}

bool is_same(double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
}
std::size_t first_difference(const std::vector<Wide>& x, const std::vector<Wide>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!is_same(x[i].high, y[i].high) || !is_same(x[i].low, y[i].low)) return i;
    }
    return x.size();
}

}  // namespace

TEST_CASE("the operations that compute references give the same bits in vector code as in scalar code",
          "[check][simd]") {
    const check::WideSteps& plain = check::wide_steps(Simd::scalar);
    std::mt19937_64 random(11);
    for (const Simd simd : available_simd()) {
        const check::WideSteps& steps = check::wide_steps(simd);
        for (const std::size_t count : {1, 7, 8, 15, 16, 17, 33, 5000}) {
            for (const double spread : {0.5, 3.0, 60.0}) {
                CAPTURE(simd_name(simd), count, spread);
                const std::vector<Wide> x = numbers(count, random, spread), y = numbers(count, random, spread);
                std::vector<Wide> want(count), got(count);
                for (const auto step : {&check::WideSteps::add, &check::WideSteps::subtract,
                                        &check::WideSteps::multiply, &check::WideSteps::divide}) {
                    for (const bool is_one : {false, true}) {
                        (plain.*step)({x.data()}, {y.data(), is_one}, want.data(), count);
                        (steps.*step)({x.data()}, {y.data(), is_one}, got.data(), count);
                        CHECK(first_difference(want, got) == count);
                    }
                }
                for (const auto step : {&check::WideSteps::exponential, &check::WideSteps::sigmoid,
                                        &check::WideSteps::tangent, &check::WideSteps::error}) {
                    (plain.*step)(x.data(), want.data(), count);
                    (steps.*step)(x.data(), got.data(), count);
                    CHECK(first_difference(want, got) == count);
                }
                const Wide one = plain.sum(x.data(), count), other = steps.sum(x.data(), count);
                CHECK((is_same(one.high, other.high) && is_same(one.low, other.low)));
            }
        }
    }
}

TEST_CASE("a double-double sum is exact if large terms cancel", "[check][simd]") {
    std::vector<Wide> x;
    for (int i = 0; i < 100; ++i) {
        x.push_back({std::ldexp(1.0, i % 60), 0});
        x.push_back({1.0, 0});
        x.push_back({-std::ldexp(1.0, i % 60), 0});
    }
    for (const Simd simd : available_simd()) CHECK(check::wide_steps(simd).sum(x.data(), x.size()).high == 100);
}

}  // namespace wide_steps_test
