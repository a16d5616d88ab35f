// SPDX-License-Identifier: Apache-2.0
// Runs `macheps sum`. Every combination of data, format, size, seed, method and rounding mode gives one result row.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/sum/data.hpp"
#include "experiments/study/sum/method.hpp"
#include "reports/rows/sum_row.hpp"

#include <functional>
#include <vector>

namespace macheps::study {

struct SumGrid {
    std::vector<SumChoice> methods{};
    std::vector<Format> formats{};
    std::vector<Round> rounds{Round::nearest_even};
    std::vector<SumData> data{};
    std::vector<std::int64_t> sizes{1024}, seeds{0};
    std::int64_t trials = 1;
    double lambda = 4;
    bool is_dot = false;
};

struct SumCost {
    std::size_t rows = 0;
    double terms = 0;  ///< number of terms added in all trials; trials that give the same sum count once
    double bytes = 0;  ///< of memory needed at the largest size
};
SumCost cost_of(const SumGrid& grid);

/// Checks the grid. Errors: throws Error (usage) for an unsupported format, for `cancel` without a value of c or with
/// an odd n, for `equal:VALUE` that overflows in a format, and for a machine that accepts none of the formats.
void require_possible(const SumGrid& grid);

/// Runs the grid. Rows are in the order data, format, n, seed, method, rounding. They depend neither on `simd` nor on
/// the number of threads.
void run_sums(ThreadPool& pool, Simd simd, const SumGrid& grid, const std::function<void(const reports::SumRow&)>& row,
              const std::function<void(const std::string&)>& progress);

}  // namespace macheps::study
