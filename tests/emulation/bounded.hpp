// SPDX-License-Identifier: Apache-2.0
// Running error analysis. A `Bounded` is an fp64 value with a bound on the error of an fp32 computation of that value.
// A test evaluates an operation's formula with Bounded numbers, in the operation's order. The result contains the
// tolerance of the operation for these operands.
// Model: fl(x) = x (1 + d) + t, |d| <= u = 2^-24, |t| <= 2^-150 (Higham, Accuracy and Stability, 2.2 and 3.3). The
// project's exp, log, erf and tanh are assumed to be within 2 ulp. The error of the fp64 arithmetic is below 2^-28 of
// the bound. The constant u in `rounded` is slightly larger than 2^-24 to cover it.
#pragma once
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace macheps::test {

struct Bounded {
    double value = 0, error = 0;

    Bounded() = default;
    Bounded(double exact) : value(exact) {}
    Bounded(double v, double e) : value(v), error(e) {}
};

inline Bounded rounded(double value, double error, double ulps = 0.5) {
    constexpr double u = 0x1.00001p-24, least = 0x1p-149;
    return {value, error + 2 * ulps * (u * (std::fabs(value) + error) + least)};
}

inline Bounded operator-(Bounded a) { return {-a.value, a.error}; }
inline Bounded operator+(Bounded a, Bounded b) { return rounded(a.value + b.value, a.error + b.error); }
inline Bounded operator-(Bounded a, Bounded b) { return a + -b; }
inline Bounded operator*(Bounded a, Bounded b) {
    return rounded(a.value * b.value, std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
}
inline Bounded operator/(Bounded a, Bounded b) {
    const double quotient = a.value / b.value, min_divisor = std::fabs(b.value) - b.error;
    return rounded(quotient, min_divisor > 0 ? (a.error + std::fabs(quotient) * b.error) / min_divisor : INFINITY);
}
inline Bounded sqrt(Bounded a) {
    const double root = std::sqrt(a.value);
    return rounded(root, a.value > a.error ? root - std::sqrt(a.value - a.error) : std::sqrt(a.value + a.error) + root);
}
inline Bounded exp(Bounded a) { return rounded(std::exp(a.value), std::exp(a.value) * std::expm1(a.error), 2); }
inline Bounded log(Bounded a) {
    return rounded(std::log(a.value), a.value > a.error ? -std::log1p(-a.error / a.value) : INFINITY, 2);
}
/// The slopes of erf and tanh decrease with |x|. In an interval, the slope is largest at the point nearest to zero.
inline Bounded erf(Bounded a) {
    const double nearest = std::fmax(std::fabs(a.value) - a.error, 0);
    return rounded(std::erf(a.value), 1.1284 * std::exp(-nearest * nearest) * a.error, 2);
}
inline Bounded tanh(Bounded a) {
    const double nearest = std::fmax(std::fabs(a.value) - a.error, 0), sech = 1 / std::cosh(nearest);
    return rounded(std::tanh(a.value), sech * sech * a.error, 2);
}

/// Returns the sum of `terms` for any order in which every term passes through at most `depth` additions.
inline Bounded sum(const std::vector<Bounded>& terms, std::size_t depth) {
    double value = 0, error = 0, magnitude = 0;
    for (const Bounded& term : terms) {
        value += term.value;
        error += term.error;
        magnitude += std::fabs(term.value) + term.error;
    }
    const double growth = static_cast<double>(depth) * 0x1.0001p-24;
    return {value, error + growth / (1 - growth) * magnitude};
}

/// Returns the sum of `terms` for the order in which every engine sums. In a chunk of 1024 terms, each of 32 lanes sums
/// 32 terms (fewer in a short chunk), and five folds join the lanes. The sums of the chunks are added in the same way.
inline Bounded lane_sum(const std::vector<Bounded>& terms) {
    std::size_t depth = 0;
    for (std::size_t n = terms.size();; n = (n + 1023) / 1024) {
        depth += (std::min<std::size_t>(n, 1024) + 31) / 32 + 5;
        if (n <= 1024) break;
    }
    return sum(terms, depth);
}

/// Checks that each element of `actual` is within the bounds of its expected value. Prints the first that is not.
inline void check_within(const std::vector<float>& actual, const std::vector<Bounded>& expected,
                         const std::string& what) {
    REQUIRE(actual.size() == expected.size());
    std::size_t outside = 0, loose = 0;
    std::string first;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        const auto& [value, error] = expected[i];
        if (!(error <= 0.01 * std::fabs(value) + 1e-4)) ++loose;
        if (std::fabs(double{actual[i]} - value) <= error) continue;
        if (++outside == 1) first = fmt::format("[{}] {} is not {} +- {}", i, actual[i], value, error);
    }
    CAPTURE(what, first);
    CHECK(outside == 0);
    CHECK(loose == 0);  // with very wide bounds, the test would pass for any result
}

}  // namespace macheps::test
