// SPDX-License-Identifier: Apache-2.0
// The kernels of LU with partial pivoting, in any format and on any machine. Their results are defined in
// definitions.hpp.
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
    bool fused = false;      ///< computes a - l u with one rounding
    std::int64_t block = 0;  ///< columns per panel; 0: right-looking, one column at a time
    /// How the update of a blocked factorisation is computed: A22 = fl(C - L21 U12), where C is the old A22. L21 and
    /// U12 are first rounded to `operands`. With a rule, its machine computes the sum, with C as the addend. Without a
    /// rule, the products are subtracted from C one at a time, and each product and each difference is rounded to
    /// `accumulator`.
    std::optional<MatmulRule> rule{};
    Format operands{}, accumulator{};
};

/// Returns the factors of `a`, which holds numbers of the plan's format. The bits are the same on every instruction set
/// and for every number of threads. Reuses the memory of `earlier`, because the operating system would first have to
/// clear new memory.
Factors factor_lu(const Matrix& a, const LuPlan& plan, ThreadPool& pool, Simd simd = chosen_simd(),
                  Factors earlier = {});

}  // namespace macheps::study
