// SPDX-License-Identifier: Apache-2.0
// + - * / and square roots in a format that is known at run time. Numbers are held as doubles, and every operation
// rounds once to nearest even, as Float<F> does. An algorithm is written once, as a template over these types.
#pragma once
#include "experiments/study/rounder.hpp"

#include <cmath>
#include <utility>

namespace macheps::study {

/// fp64 itself.
struct NativeArithmetic {
    using Number = double;
    static double from(double x) { return x; }
    static double to_double(double x) { return x; }
    static double add(double a, double b) { return a + b; }
    static double sub(double a, double b) { return a - b; }
    static double mul(double a, double b) { return a * b; }
    static double div(double a, double b) { return a / b; }
    static double sqrt(double a) { return std::sqrt(a); }
};

/// Any format of up to 25 digits.
class FormatArithmetic {
  public:
    using Number = double;
    explicit FormatArithmetic(const Format& format) : round_(format) {}
    double from(double x) const { return round_(x); }
    static double to_double(double x) { return x; }
    double add(double a, double b) const { return round_(a + b); }
    double sub(double a, double b) const { return round_(a - b); }
    double mul(double a, double b) const { return round_(a * b); }
    double div(double a, double b) const { return round_(a / b); }
    double sqrt(double a) const { return round_(std::sqrt(a)); }

  private:
    Rounder<double> round_;
};

/// Stands for IEEE binary128 in the options of the verbs. It is not in the format table, because its numbers do not fit
/// any container of core.
inline constexpr Format fp128{.bits = 128, .precision = 113, .exponent_bias = 16383};

/// Calls `use` with the arithmetic of a format that is not fp128.
template <class Use>
decltype(auto) with_arithmetic(const Format& format, Use&& use) {
    if (format == fp64) return std::forward<Use>(use)(NativeArithmetic{});
    return std::forward<Use>(use)(FormatArithmetic(format));
}

}  // namespace macheps::study
