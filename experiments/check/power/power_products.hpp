// SPDX-License-Identifier: Apache-2.0
// Wrong kernels of matrix products: accumulators too narrow, promotion left out, partial sums rounded, operands cut.
// They are simulated on the first rows of the outputs, as many as take no longer than the check itself.
#pragma once
#include "experiments/check/power/trial.hpp"

namespace macheps::check {

/// What such a kernel has before its last rounding.
struct WrongProduct {
    std::string name;
    std::string_view kind;
    Power required_by = Power::precision;
    std::vector<double> exact;
    /// What the fault changes depends on the order of the sums, which was chosen here: nothing is certified by it.
    bool is_simulated = true;
};

/// So many rows of one group as 2^24 products fill, but at least 16 where there are.
std::int64_t simulated_rows(const Problem& problem);
/// The limits of the first rows.
Limits first_rows(const Limits& limits, std::int64_t rows);

/// Of the first simulated_rows().
std::vector<WrongProduct> wrong_products(const Problem& problem, ThreadPool& pool);

/// Sums in chains of 8 products, each rounded to so many bits: what is before the last rounding, of the first rows.
std::vector<double> with_accumulator(const Problem& problem, int bits, ThreadPool& pool);

/// The largest width of accumulators, in bits, that the tests refuse; 0: none that was tried.
int refused_accumulator(const Problem& problem, const Limits& limits, ThreadPool& pool);

/// Up to 16 rows of a batch or group, made with the b of the one before it; nothing where there is one b.
void add_other_b(Trial& trial, const Problem& problem);

}  // namespace macheps::check
