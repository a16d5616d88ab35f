// SPDX-License-Identifier: Apache-2.0
// LU with partial pivoting in any format and on any machine: the kernels. `definitions.hpp` defines what they compute.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/matmul/rule.hpp"
#include "experiments/study/solve/factor/factors.hpp"

#include <cstdint>
#include <optional>

namespace macheps::study {

/// Settings of an LU factorisation.
struct LuPlan {
    Format format{};         ///< format of L and U, and of every operation that a machine does not compute
    bool pivots = true;      ///< false: pivots are the diagonal elements, as in HPL-MxP
    bool fused = false;      ///< a - l u with one rounding
    std::int64_t block = 0;  ///< columns of a panel; 0: right-looking, one column at a time
    /// For the blocked update A22 = fl(C - L21 U12), C = A22. With a machine, the sum is that of the machine with
    /// addend C. Without one, c = c - l u in `accumulator`, where product and difference are rounded separately. l and
    /// u are first rounded to `operands`.
    std::optional<MatmulRule> rule{};
    Format operands{}, accumulator{};
};

/// Returns the factors of `a`, which holds numbers of the plan's format. The bits are the same on every instruction set
/// and for every number of threads. The memory of `earlier` factors is reused, because the operating system clears new
/// memory first.
Factors factor_lu(const Matrix& a, const LuPlan& plan, ThreadPool& pool, Simd simd = chosen_simd(),
                  Factors earlier = {});

}  // namespace macheps::study
