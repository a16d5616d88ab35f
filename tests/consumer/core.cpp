// SPDX-License-Identifier: Apache-2.0
// A program that uses core: numbers, names, errors and threads. It also checks that the project gets the compile flag
// that forbids contraction, because contraction changes results.
#include "check.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/host/thread_pool.hpp"
#include "core/math.hpp"
#include "core/profile_table.hpp"
#include "core/rng.hpp"
#include "core/text/print.hpp"
#if __has_include("core/types/float.hpp")
#include "core/types/float.hpp"
#endif

#include <atomic>
#include <string_view>

namespace {

#if defined(__x86_64__)
// If contraction is allowed and the target has the instruction, a compiler turns this into one fused multiply-add.
__attribute__((target("fma"), noinline)) float rounded_twice(float a, float b, float c) { return a * b - c; }
bool can_contract() { return __builtin_cpu_supports("fma"); }
#else
__attribute__((noinline)) float rounded_twice(float a, float b, float c) { return a * b - c; }
bool can_contract() { return true; }
#endif

}  // namespace

int main() {
    using namespace macheps;
    CONSUMER_CHECK(encode(e4m3fn, 464.0f, Round::nearest_even, Overflow::nonsaturate) == 0x7e);
    CONSUMER_CHECK(encode(format_named("bf16"), 1.00390625, Round::up, Overflow::saturate) == 0x3f81);
    CONSUMER_CHECK(decode(e2m1fn, 0x7) == 6.0f);
    CONSUMER_CHECK(quantize(fp16, 0.1f, Round::nearest_even, Overflow::saturate) == 0x1.998p-4f);
    CONSUMER_CHECK(encode(profile_named("cuda_sat"), e4m3fn, 1e6f, Round::nearest_even) == 0x7e);
    CONSUMER_CHECK(math::exp(1.0f) == 0x1.5bf0a8p1f);
    CONSUMER_CHECK(random_bits({.seed = 1}, 0) == random_block({.seed = 1}, 0).word[0]);
    CONSUMER_CHECK(format_name(e5m2) == "e5m2");

#if __has_include("core/types/float.hpp")
    const Float<e4m3fn> product = Float<e4m3fn>(1.125) * Float<e4m3fn>(1.125);  // 1.265625, between 1.25 and 1.375
    CONSUMER_CHECK(double(product) == 1.25);
#endif

    bool refused = false;
    try {
        format_named("e4m44");
    } catch (const Error&) {
        refused = true;
    }
    CONSUMER_CHECK(refused);

    std::atomic<int> sum{0};
    ThreadPool(2).run(10, [&](std::int64_t i) { sum += static_cast<int>(i); });
    CONSUMER_CHECK(sum == 45);

    // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 with one rounding, and 0 with two.
    volatile float factor = 1 + 0x1p-12f, term = 1 + 0x1p-11f;  // volatile, so that the compiler cannot fold it
    if (can_contract()) CONSUMER_CHECK(rounded_twice(factor, factor, term) == 0);
    return failures == 0 ? 0 : 1;
}
