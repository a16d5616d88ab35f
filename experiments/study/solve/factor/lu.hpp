// SPDX-License-Identifier: Apache-2.0
// LU with partial pivoting in any format, and on any machine: the kernels. `definitions.hpp` says what they compute.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/matmul/rule.hpp"
#include "experiments/study/solve/factor/factors.hpp"

#include <cstdint>
#include <optional>

namespace macheps::study {

/// How a matrix is factored.
struct LuPlan {
    Format format{};         ///< of L and U, and of every operation that no machine does
    bool pivots = true;      ///< false: the diagonal, as HPL-MxP has it
    bool fused = false;      ///< a - l u with one rounding
    std::int64_t block = 0;  ///< columns of a panel; 0: right-looking, one column at a time
    /// Of the blocked update A22 = fl(C - L21 U12), C = A22. With a machine the sum is that machine's, C its addend; else
    /// c = c - l u in `accumulator`, product and difference rounded apart. l and u are rounded to `operands` before.
    std::optional<MatmulRule> rule{};
    Format operands{}, accumulator{};
};

/// `a` holds numbers of the plan's format. The same bits on every instruction set and for every number of threads. The memory
/// of `earlier` factors serves again: what the operating system gives anew it clears first.
Factors factor_lu(const Matrix& a, const LuPlan& plan, ThreadPool& pool, Simd simd = chosen_simd(),
                  Factors earlier = {});

}  // namespace macheps::study
