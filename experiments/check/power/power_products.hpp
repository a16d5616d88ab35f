// SPDX-License-Identifier: Apache-2.0
// Wrong kernels of matrix products: accumulators too narrow, promotion left out, partial sums rounded, operands cut.
// They are simulated only on the first rows of the outputs, to limit the time that this takes.
#pragma once
#include "experiments/check/power/trial.hpp"

namespace macheps::check {

/// The results of such a kernel before its last rounding.
struct WrongProduct {
    std::string name;
    std::string_view kind;
    Power required_by = Power::precision;
    std::vector<double> exact;
    /// The effect of the fault depends on the order of the sums, and the simulation chose one order. Therefore the
    /// fault cannot be certified.
    bool is_simulated = true;
};

/// Returns the number of rows that are simulated: as many rows of the first group as fit in 2^24 multiplications, but
/// at least 16 if the group has them.
std::int64_t simulated_rows(const Problem& problem);
/// Returns the limits of the first `rows` rows.
Limits first_rows(const Limits& limits, std::int64_t rows);

/// Returns the wrong kernels, with their results for the first simulated_rows().
std::vector<WrongProduct> wrong_products(const Problem& problem, ThreadPool& pool);

/// Returns the results of a kernel that rounds its accumulator to `bits` bits after every 8 products, before the last
/// rounding and for the first simulated_rows().
std::vector<double> with_accumulator(const Problem& problem, int bits, ThreadPool& pool);

/// Returns the largest accumulator width, in bits, that the tests refuse; 0 if they refuse none that was tried.
int refused_accumulator(const Problem& problem, const Limits& limits, ThreadPool& pool);

/// Adds a kernel that computes up to 16 rows of a batch or group with the b of the one before it. Adds nothing if there
/// is only one b.
void add_other_b(Trial& trial, const Problem& problem);

}  // namespace macheps::check
