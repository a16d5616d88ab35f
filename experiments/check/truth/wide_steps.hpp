// SPDX-License-Identifier: Apache-2.0
// Double-double operations on whole rows, for exact results. They use vector instructions if the CPU has them, and give
// the same bits as the scalar operations in wide.hpp.
#pragma once
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/check/truth/wide.hpp"

#include <cstddef>

namespace macheps::check {

/// A row of numbers. If `is_one` is true, a single number is used for all elements of the row.
struct WideRow {
    const Wide* first = nullptr;
    bool is_one = false;
};

struct WideSteps {
    /// Computes out[i] = step(x[i], y[i]).
    using Two = void (*)(WideRow x, WideRow y, Wide* out, std::size_t count);
    /// Computes out[i] = step(x[i]). `out` may be x.
    using One = void (*)(const Wide* x, Wide* out, std::size_t count);

    Two add = nullptr, subtract = nullptr, multiply = nullptr, divide = nullptr;
    One exponential = nullptr, sigmoid = nullptr, tangent = nullptr, error = nullptr;
    /// Returns the sum of a row. Each of 16 partial sums adds every sixteenth number, and a tree adds the partial sums.
    Wide (*sum)(const Wide* x, std::size_t count) = nullptr;
};
inline constexpr std::size_t wide_sum_lanes = 16;

const WideSteps& wide_steps(Simd simd);

}  // namespace macheps::check
