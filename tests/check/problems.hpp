// SPDX-License-Identifier: Apache-2.0
// Makes the arrays of a kernel in memory, as if they had been read from a file, and judges them.
#pragma once
#include "experiments/check/check.hpp"
#include "experiments/check/declare/operations.hpp"
#include "tests/check/kernels.hpp"
#include "tests/test.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

namespace macheps::test {

using kernels::Floats;
using kernels::Store;

/// Returns the fp16 code of a float that fp16 can represent. A NaN becomes the quiet NaN.
inline std::uint16_t half_code(float x) {
    const int sign = std::signbit(x) ? 0x8000 : 0, infinity = 0x7c00;
    const float size = std::fabs(x);
    if (!std::isfinite(x)) return static_cast<std::uint16_t>(sign | infinity | (std::isnan(x) ? 0x200 : 0));
    if (size < 0x1p-14f) return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(size, 24)));
    int exponent = 0;
    const float fraction = std::frexp(size, &exponent);  // in [1/2, 1)
    return static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) - 1024));
}

/// Returns an array as if it had been read from a file. An array of bf16 numbers holds codes without a format, so the
/// declaration must give the format. Arrays of fp16 and fp32 numbers name their format themselves.
inline files::StoredArray array(const std::string& name, std::vector<std::int64_t> shape, const Floats& values,
                                Store store = Store::fp32) {
    files::StoredArray out{
        .name = name, .where = "test", .type = "<f4", .format = fp32, .width = 4, .shape = std::move(shape)};
    for (const float x : values) {
        const auto bits = std::bit_cast<std::uint32_t>(x);
        if (store == Store::bf16) {
            out.bytes += {static_cast<char>(bits >> 16), static_cast<char>(bits >> 24)};
        } else if (store == Store::fp16) {
            const std::uint16_t code = half_code(x);
            out.bytes += {static_cast<char>(code), static_cast<char>(code >> 8)};
        } else {
            for (int i = 0; i < 4; ++i) out.bytes += static_cast<char>(bits >> (8 * i));
        }
    }
    if (store == Store::bf16) out.type = "|V2", out.format.reset(), out.width = 2;
    if (store == Store::fp16) out.type = "<f2", out.format = fp16, out.width = 2;
    return out;
}

inline ThreadPool& pool() {
    static ThreadPool threads(2);
    return threads;
}

inline check::Declaration declare(const char* op, Store out, Store in = Store::fp32) {
    check::Declaration d{.operation = &check::find_operation(op)};
    if (out == Store::bf16) d.formats["out"] = {bf16, false};
    for (const char* name : {"a", "b", "x"}) {
        if (in == Store::bf16) d.formats[name] = {bf16, false};
    }
    return d;
}

inline check::Verdict judge_arrays(const check::Declaration& d, const std::vector<files::StoredArray>& arrays,
                                   const check::Options& options = {}) {
    const check::Posed posed = check::pose(d, arrays, pool());
    return check::check(posed.problem, posed.out, options, pool());
}

/// Returns true if the kernel was judged and no test refused it.
inline bool is_accepted(const check::Verdict& verdict) {
    return verdict.outcome == check::Outcome::pass || verdict.outcome == check::Outcome::weak;
}

/// Returns the codes of the reasons in one string.
inline std::string codes(const check::Verdict& verdict) {
    std::string all;
    for (const auto& reason : verdict.reasons) all += reason.code + " ";
    return all;
}

inline Floats normal(std::size_t n, std::mt19937& random, float mean = 0, float sigma = 1, Store store = Store::fp32) {
    std::normal_distribution<float> draw(mean, sigma);
    Floats x(n);
    for (float& each : x) each = kernels::stored(store, draw(random));
    return x;
}

}  // namespace macheps::test
