// SPDX-License-Identifier: Apache-2.0
// Arithmetic types for a format that is chosen at run time. They provide + - * / and square roots. Numbers are stored
// as doubles, and every operation rounds once to nearest even, like Float<F>. An algorithm takes one of these types as
// a template argument.
#pragma once
#include "experiments/study/rounder.hpp"

#include <cmath>
#include <utility>

namespace macheps::study {

/// Arithmetic in fp64, the native type.
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

/// Arithmetic in any format with a precision of up to 25 bits.
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

/// IEEE binary128. Some command-line options accept it, but it is not in the format table, because core has no
/// container that can hold its numbers.
inline constexpr Format fp128{.bits = 128, .precision = 113, .exponent_bias = 16383};

/// Calls `use` with the arithmetic of `format`, which must not be fp128.
template <class Use>
decltype(auto) with_arithmetic(const Format& format, Use&& use) {
    if (format == fp64) return std::forward<Use>(use)(NativeArithmetic{});
    return std::forward<Use>(use)(FormatArithmetic(format));
}

}  // namespace macheps::study
