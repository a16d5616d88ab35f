// SPDX-License-Identifier: Apache-2.0
// The steps of references on whole rows, in vectors where the CPU has them: the bits are those of wide.hpp.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/check/truth/wide.hpp"

#include <cstddef>

namespace macheps::check {

/// A row's numbers, or one that serves all of them.
struct WideRow {
    const Wide* first = nullptr;
    bool is_one = false;
};

struct WideSteps {
    /// out[i] = x[i] step y[i].
    using Two = void (*)(WideRow x, WideRow y, Wide* out, std::size_t count);
    /// out[i] = step of x[i]; in place where x is out.
    using One = void (*)(const Wide* x, Wide* out, std::size_t count);

    Two add = nullptr, subtract = nullptr, multiply = nullptr, divide = nullptr;
    One exponential = nullptr, sigmoid = nullptr, tangent = nullptr, error = nullptr;
    /// Of 16 partial sums, of every sixteenth number each, in a tree.
    Wide (*sum)(const Wide* x, std::size_t count) = nullptr;
};
inline constexpr std::size_t wide_sum_lanes = 16;

const WideSteps& wide_steps(Simd simd);

}  // namespace macheps::check
