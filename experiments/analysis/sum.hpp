// SPDX-License-Identifier: Apache-2.0
// Sums and dot products over a grid: methods, formats, roundings, data and lengths, a row for each.
#pragma once
#include "core/thread_pool.hpp"
#include "experiments/analysis/sum_methods.hpp"
#include "experiments/numerics/operands.hpp"
#include "reports/sum_row.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::analysis {

/// Numbers to add: a distribution, `harmonic` (1/(i+1)), or `cancel:C`, operands of a dot product whose exact value is
/// 2.25 2^-C although its terms are near 1.
struct SumData {
    std::string text{};
    std::optional<Distribution> drawn{};
    int cancel = -1;  ///< C
};
/// Errors: throws Error (usage).
SumData parse_sum_data(std::string_view text);

struct SumOperands {
    std::vector<double> x{}, y{};  ///< y is empty for a sum
};
/// Each rounded to the format, to nearest even.
SumOperands sum_operands(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n, bool dot);

struct SumGrid {
    std::vector<SumMethod> methods{};
    std::vector<Format> formats{};
    std::vector<Round> rounds{Round::nearest_even};
    std::vector<SumData> data{};
    std::vector<std::int64_t> seeds{0}, sizes{1024};
    std::int64_t trials = 1;  ///< of stochastic rounding; others have one
    double lambda = 4;
    bool dot = false;
};

/// Throws Error (usage) where a combination means nothing: a method of products without --dot, `cancel` without it or with an
/// odd n, a format of more than 25 digits.
void require_possible(const SumGrid& grid);

/// Methods vary fastest, then roundings, formats, data, seeds. The same rows for every number of threads.
void run_sum(ThreadPool& pool, const SumGrid& grid, const std::function<void(const SumRow&)>& row,
             const std::function<void(const std::string&)>& before = {});

}  // namespace macheps::analysis
