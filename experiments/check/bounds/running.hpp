// SPDX-License-Identifier: Apache-2.0
// The running bound of a matrix product: what a machine's chains can lose of each output, from that output's own partial
// sums. With P_t the exact sums of the first terms, at the ends of steps, R = max P - min P bounds every partial sum of
// every slice of k, wherever slices begin at a step. Of each step t, with F, u(D) and the steps of the machine's row:
//
//   unit_t  = 2^(max(exponents of the step's products, floor(log2(R + E_t))) - F)
//   E_(t+1) = E_t + sum over products that unit_t does not divide of min(|a b|, unit_t) + unit_t + u(D) (R + E_t)
//   end:      + slices u (|P_T| + E + R);  promotion: the same for each block, with the R of the block, and
//             + blocks u (R + E) for the joins
//
// It is far below the bound of `error_bound` where products cancel, as random ones do. It shares no code with emulation/:
// of there it reads rows of tables.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/matmul/rule.hpp"
#include "experiments/check/truth/operands.hpp"

#include <vector>

namespace macheps::check {

/// What an output's sum may lose.
struct SumError {
    double certain = 0;
    double mean = 0;    ///< the part of it that losses of one sign make
    double spread = 0;  ///< the norm of the independent rest
    double range = 0;   ///< no partial sum of a slice is larger, but for its errors
};

/// Returns true if the row is walked: all rows of a product of up to `most` terms; of a larger one the last rows, and 16 rows at
/// regular distances. Other rows keep the bound of all orders.
bool is_walked(const ProductOperands& of, std::int64_t row, std::int64_t most);

/// True where this bounds the rule's sums: chains on matrix units, fp32 chains, one exact sum.
bool has_running_bound(const MatmulRule& rule);

/// Of every output of `operands` under `rule`, which has one; of products beyond 2^32 terms only of some rows, and infinite
/// elsewhere. `magnitudes` are the sums of |a b|. Losses below the
/// normal numbers, and in the output's format, are not in it.
std::vector<SumError> running_bound(const ProductOperands& operands, const MatmulRule& rule,
                                    const std::vector<double>& magnitudes, ThreadPool& pool);

}  // namespace macheps::check
