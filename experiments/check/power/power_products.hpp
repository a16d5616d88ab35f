// SPDX-License-Identifier: Apache-2.0
// Wrong kernels for matrix products. Some have an accumulator that is too narrow, some do not promote partial sums, and
// some round partial sums or operands. Only the first rows of the output are simulated, to save time.
#pragma once
#include "experiments/check/power/trial.hpp"

namespace macheps::check {

/// A wrong kernel for a matrix product. `exact` holds its results before the final rounding.
struct WrongProduct {
    std::string name;
    std::string_view kind;
    Power required_by = Power::precision;
    std::vector<double> exact;
    /// True if the effect of the fault depends on the order of summation. The simulation uses a single order. Its
    /// result therefore does not certify that a kernel with this fault is always refused.
    bool is_simulated = true;
};

/// Returns the number of rows that are simulated. They are the first rows of the first group: as many as 2^24
/// multiplications can compute, but at least 16, or all rows if the group has fewer.
std::int64_t simulated_rows(const Problem& problem);
/// Returns the limits of the first `rows` rows.
Limits first_rows(const Limits& limits, std::int64_t rows);

/// Returns the wrong kernels, with their results for the first simulated_rows() rows.
std::vector<WrongProduct> wrong_products(const Problem& problem, ThreadPool& pool);

/// Simulates a kernel that rounds its accumulator to `bits` bits after every 8 products. Returns its results before the
/// final rounding, for the first simulated_rows() rows.
std::vector<double> with_accumulator(const Problem& problem, int bits, ThreadPool& pool);

/// Returns the largest accumulator width, in bits, that the tests refuse, or 0 if they refuse none of the widths that
/// were tried.
int refused_accumulator(const Problem& problem, const Limits& limits, ThreadPool& pool);

/// Adds a wrong kernel that multiplies up to 16 rows of a batch or group by the matrix b that belongs to the preceding
/// batch or group. Adds nothing if all batches share one b.
void add_other_b(Trial& trial, const Problem& problem);

}  // namespace macheps::check
