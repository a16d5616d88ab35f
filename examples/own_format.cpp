// SPDX-License-Identifier: Apache-2.0
// Defines a custom format as a constant. Prints the range of e5m6, rounds some numbers to it, and compares x x + y with
// fma(x, x, y), which rounds only once.
//
//     c++ -std=c++20 own_format.cpp $(pkg-config --cflags --libs macheps-core) && ./a.out
#include "core/codec.hpp"
#include "core/text/float_print.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <limits>

using namespace macheps;

int main() {
    // The format has a sign bit, five exponent bits, six fraction bits, and the infinities and NaNs of IEEE 754. The
    // members `specials` and `encoding` can be set too.
    constexpr Format e5m6{.bits = 12, .precision = 7, .exponent_bias = 15};
    using Number = Float<e5m6>;
    using Limits = std::numeric_limits<Number>;
    static_assert(Number(1) + Limits::epsilon() > Number(1));
    static_assert(Number(1) + Number(e5m6.unit_roundoff()) == Number(1));  // a tie, rounded to even

    fmt::print("e5m6: {} to {}, normal from {}, epsilon {}\n", Limits::denorm_min(), Limits::max(), Limits::min(),
               Limits::epsilon());
    for (const double x : {0.1, 1.0 / 3, 1000.4, 1e6}) {
        const auto code = encode(e5m6, x, Round::nearest_even, Overflow::nonsaturate);
        fmt::print("{:.6g} -> {} (0x{:03x})\n", x, Number::from_bits(code), code);
    }
    // 1.015625^2 - 1.03125 is 2^-12. fma returns this result, but two roundings lose it.
    const Number x(1.015625), y(-1.03125);
    fmt::print("x x + y: {} with two roundings, {} with one\n", x * x + y, fma(x, x, y));
    return std::ferror(stdout) != 0;
}
