// SPDX-License-Identifier: Apache-2.0
// The steps of references on whole rows. They use vectors if the CPU has them, and give the same bits as wide.hpp.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/check/truth/wide.hpp"

#include <cstddef>

namespace macheps::check {

/// The numbers of a row, or one number that serves all of its elements.
struct WideRow {
    const Wide* first = nullptr;
    bool is_one = false;
};

struct WideSteps {
    /// Computes out[i] = x[i] step y[i].
    using Two = void (*)(WideRow x, WideRow y, Wide* out, std::size_t count);
    /// Computes out[i] = step(x[i]). `out` may be x.
    using One = void (*)(const Wide* x, Wide* out, std::size_t count);

    Two add = nullptr, subtract = nullptr, multiply = nullptr, divide = nullptr;
    One exponential = nullptr, sigmoid = nullptr, tangent = nullptr, error = nullptr;
    /// Returns the sum. Each of 16 partial sums adds every sixteenth number, and a tree adds the partial sums.
    Wide (*sum)(const Wide* x, std::size_t count) = nullptr;
};
inline constexpr std::size_t wide_sum_lanes = 16;

const WideSteps& wide_steps(Simd simd);

}  // namespace macheps::check
