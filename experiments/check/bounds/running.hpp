// SPDX-License-Identifier: Apache-2.0
// The running bound of a matrix product: an upper bound on the rounding errors of a machine's chains in each output,
// computed from the exact partial sums of that output. Let P_t be the exact sum of the terms up to the end of step t. R
// = max P - min P bounds every partial sum of every slice of k that begins at a step. F, u(D) and the number of terms
// per step are in the machine's row of the table of machines. For each step t:
//
//   unit_t  = 2^(max(exponents of the step's products, floor(log2(R + E_t))) - F)
//   E_(t+1) = E_t + sum over products that unit_t does not divide of min(|a b|, unit_t) + unit_t + u(D) (R + E_t)
//
// With promotion, E is computed separately for each block, with the R of the block. The results are added up, and
// blocks u (R + E) is added for the joins, where `blocks` is the number of blocks. At the end, with and without
// promotion, slices u (|P_T| + E + R) is added, where `slices` is the number of slices.
//
// If products cancel, as random ones do, this bound is far below that of `error_bound`. The code shares nothing with
// emulation/ except the tables of machines.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/matmul/rule.hpp"
#include "experiments/check/truth/operands.hpp"

#include <vector>

namespace macheps::check {

/// Error bound of an output's sum.
struct SumError {
    double certain = 0;
    double mean = 0;    ///< the part of `certain` that comes from errors of one sign
    double spread = 0;  ///< norm of the remaining, independent errors
    double range = 0;   ///< bound on the exact magnitude of every partial sum of a slice
};

/// Returns true if the running bound is computed for this row. For products of up to `most` terms, it is computed for
/// all rows. For larger products, it is computed for the last 16 rows and for groups of 16 rows at regular intervals.
/// All other rows keep the bound that holds for every order of summation.
bool is_walked(const ProductOperands& of, std::int64_t row, std::int64_t most);

/// Returns true if running_bound() supports the rule: chains on matrix units, fp32 chains, and exact sums that are
/// rounded once.
bool has_running_bound(const MatmulRule& rule);

/// Returns the running bound of every output. If a product has more than 2^32 terms, only some rows have this bound
/// (is_walked); it is infinite in all other rows. `magnitudes` are the sums of |a b|. The bound includes neither
/// errors below the normal numbers nor the rounding to the output's format. Precondition: has_running_bound(rule).
std::vector<SumError> running_bound(const ProductOperands& operands, const MatmulRule& rule,
                                    const std::vector<double>& magnitudes, ThreadPool& pool);

}  // namespace macheps::check
