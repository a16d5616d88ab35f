// SPDX-License-Identifier: Apache-2.0
// Test data of the kinds that kernels receive: random, structured, with few different values, cancelling, and near the
// ends of the range.
#pragma once
#include "tests/check/problems.hpp"

#include "core/codec.hpp"

#include <array>

namespace macheps::test {

enum class Kind {
    normal,
    positive,
    constant,       ///< one number everywhere
    constant_rows,  ///< one number for each row
    two_values,
    few_values,
    fp8_codes,
    fp4_codes,
    whole_numbers,
    cancelling,   ///< pairs of neighbours that almost cancel
    alternating,  ///< large and small numbers in turn
    ramp,
    outliers,
    wide,  ///< exponents over twenty binades
    sorted,
    huge,
    tiny,
    mostly_zero
};
inline constexpr int kinds = 18;
inline constexpr std::array<const char*, kinds> kind_names{
    "normal",    "positive",  "constant",      "constant rows", "two values",  "few values",
    "fp8 codes", "fp4 codes", "whole numbers", "cancelling",    "alternating", "ramp",
    "outliers",  "wide",      "sorted",        "huge",          "tiny",        "mostly zero"};

/// Returns a [rows, columns] array of numbers that `format` can represent.
inline Floats drawn_data(Kind kind, std::size_t rows, std::size_t columns, const Format& format, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1);
    std::uniform_real_distribution<float> uniform(0, 1);
    const auto to = [](const Format& f, float x) {
        return decode(f, encode(f, x, Round::nearest_even, Overflow::saturate));
    };
    Floats x(rows * columns);
    const float sign = random() % 2 ? 1.0f : -1.0f, one = sign * (0.05f + 3 * uniform(random)), two = normal(random);
    Floats few(5);
    for (float& each : few) each = normal(random);
    for (std::size_t r = 0; r < rows; ++r) {
        const float own = 0.05f + 3 * uniform(random);
        for (std::size_t c = 0; c < columns; ++c) {
            float y = normal(random);
            if (kind == Kind::positive) y = uniform(random);
            if (kind == Kind::constant) y = one;
            if (kind == Kind::constant_rows) y = own;
            if (kind == Kind::two_values) y = random() % 2 ? one : two;
            if (kind == Kind::few_values) y = few[random() % few.size()];
            if (kind == Kind::fp8_codes) y = to(e4m3fn, y);
            if (kind == Kind::fp4_codes) y = to(e2m1fn, 2 * y);
            if (kind == Kind::whole_numbers) y = static_cast<float>(static_cast<int>(random() % 9) - 4);
            if (kind == Kind::cancelling && c % 2 == 1) y = -x[r * columns + c - 1] * (1 - 0x1p-9f);
            if (kind == Kind::alternating) y = c % 2 ? 1000 * one : 0.001f * two;
            if (kind == Kind::ramp) y = one + two * static_cast<float>(c) / static_cast<float>(columns);
            if (kind == Kind::outliers && random() % 64 == 0) y *= 1000;
            if (kind == Kind::wide) y = std::ldexp(y, static_cast<int>(random() % 21) - 10);
            if (kind == Kind::huge) y *= 1e30f;
            if (kind == Kind::tiny) y *= 1e-36f;
            if (kind == Kind::mostly_zero && random() % 16 != 0) y = 0;
            x[r * columns + c] = to(format, y);
        }
    }
    if (kind == Kind::sorted) {
        for (std::size_t r = 0; r < rows; ++r)
            std::sort(x.begin() + static_cast<std::ptrdiff_t>(r * columns),
                      x.begin() + static_cast<std::ptrdiff_t>((r + 1) * columns));
    }
    return x;
}

/// Returns kernels::orders() and further orders of summation that libraries and hand-written kernels use. `macheps
/// check` itself does not use the further orders.
inline std::vector<kernels::Order> more_orders() {
    std::vector<kernels::Order> all = kernels::orders();
    const auto lanes = [](const Floats& x, std::size_t width) {
        Floats s(width);
        for (std::size_t i = 0; i < x.size(); ++i) s[i % width] += x[i];
        return s;
    };
    for (const std::size_t width : {8u, 48u, 256u})  // the lanes are added one after another
        all.push_back({"lanes" + std::to_string(width) + " joined in order",
                       [=](const Floats& x) { return kernels::chain(lanes(x, width)); }});
    for (const std::size_t length : {16u, 100u, 1024u}) {
        all.push_back({"chain of blocks of " + std::to_string(length), [=](const Floats& x) {
                           float s = 0;
                           for (std::size_t at = 0; at < x.size(); at += length) {
                               float part = 0;
                               for (std::size_t i = at; i < std::min(at + length, x.size()); ++i) part += x[i];
                               s += part;
                           }
                           return s;
                       }});
    }
    all.push_back({"four at a time", [](const Floats& x) {  // as kernels with vectorised loads do
                       float s = 0;
                       std::size_t i = 0;
                       for (; i + 4 <= x.size(); i += 4) s += (x[i] + x[i + 1]) + (x[i + 2] + x[i + 3]);
                       for (; i < x.size(); ++i) s += x[i];
                       return s;
                   }});
    all.push_back({"from both ends", [](const Floats& x) {
                       float s = 0;
                       for (std::size_t i = 0, j = x.size(); i < j--; ++i) s += i < j ? x[i] + x[j] : x[i];
                       return s;
                   }});
    all.push_back({"even terms, then odd ones", [](const Floats& x) {
                       float s = 0;
                       for (std::size_t i = 0; i < x.size(); i += 2) s += x[i];
                       for (std::size_t i = 1; i < x.size(); i += 2) s += x[i];
                       return s;
                   }});
    return all;
}

}  // namespace macheps::test
