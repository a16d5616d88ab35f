// SPDX-License-Identifier: Apache-2.0
// Arithmetic on Float<F> with stochastic rounding. The caller passes the stream of random words to every operation, and
// the arithmetic has no hidden state: the same stream gives the same bits on CPU and GPU.
//
//     RandomStream stream{.key = {.seed = 1}};
//     Float<bf16> sum;
//     for (Float<bf16> x : terms) sum = add(sum, x, stream);
#pragma once
#include "core/rng.hpp"
#include "core/types/float.hpp"

namespace macheps {

/// A sequence of random words: word i of the stream is random_bits(key, i). Threads that must not share words use
/// different keys (for example, different sites), or disjoint ranges of elements of the same key.
struct RandomStream {
    RngKey key{};
    std::uint64_t element = 0;  ///< index of the next word

    MACHEPS_HD constexpr RandomBits next() { return {random_bits(key, element++), 32}; }
};

namespace detail {

template <Format F>
MACHEPS_HD constexpr Float<F> drawn(Operation operation, Float<F> a, Float<F> b, Float<F> c, RandomStream& stream) {
    return Float<F>::from_bits(
        op(operation, F, a.bits(), b.bits(), c.bits(), Round::stochastic, Overflow::nonsaturate, stream.next()).bits);
}

}  // namespace detail

// Return a + b, a - b, a b, a / b, sqrt(a), or a b + c with one rounding. The probability of rounding away from zero is
// the discarded fraction of an ulp; otherwise, the result is rounded toward zero. Each call takes one random word, even
// if the result is exact.
template <Format F>
MACHEPS_HD constexpr Float<F> add(Float<F> a, Float<F> b, RandomStream& stream) {
    return detail::drawn(Operation::add, a, b, Float<F>(), stream);
}
template <Format F>
MACHEPS_HD constexpr Float<F> sub(Float<F> a, Float<F> b, RandomStream& stream) {
    return detail::drawn(Operation::sub, a, b, Float<F>(), stream);
}
template <Format F>
MACHEPS_HD constexpr Float<F> mul(Float<F> a, Float<F> b, RandomStream& stream) {
    return detail::drawn(Operation::mul, a, b, Float<F>(), stream);
}
template <Format F>
MACHEPS_HD constexpr Float<F> div(Float<F> a, Float<F> b, RandomStream& stream) {
    return detail::drawn(Operation::div, a, b, Float<F>(), stream);
}
template <Format F>
MACHEPS_HD constexpr Float<F> sqrt(Float<F> a, RandomStream& stream) {
    return detail::drawn(Operation::sqrt, a, Float<F>(), Float<F>(), stream);
}
template <Format F>
MACHEPS_HD constexpr Float<F> fma(Float<F> a, Float<F> b, Float<F> c, RandomStream& stream) {
    return detail::drawn(Operation::fma, a, b, c, stream);
}

/// Rounds x stochastically: `rounded<bf16>(0.1, stream)`.
template <Format F, class Source>
MACHEPS_HD constexpr Float<F> rounded(Source x, RandomStream& stream) {
    return Float<F>::from_bits(encode64(F, x, Round::stochastic, Overflow::nonsaturate, stream.next()));
}

}  // namespace macheps
