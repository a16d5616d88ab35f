// SPDX-License-Identifier: Apache-2.0
// `gemm --via`: the error of wide products made of narrow ones, beside that of an fp64 chain, over a grid of data.
#pragma once
#include "experiments/study/operands.hpp"
#include "experiments/study/product/narrow_product.hpp"
#include "reports/rows/gemm_row.hpp"

#include <functional>
#include <string>
#include <vector>

namespace macheps::study {

/// Every combination of what the lists hold, machines innermost.
struct ViaGrid {
    Via via{};
    std::vector<SpelledRule> machines{};
    std::vector<Format> formats{};  ///< of the data: fp64, as drawn, or fp32
    std::vector<Distribution> distributions{Distribution::normal};
    std::vector<double> scales{1};
    std::vector<std::int64_t> seeds{0}, m{16}, n{16}, k{4096};
    int digit_bits = 0;  ///< 0: the exactness rule's
    bool full = false, combines_exactly = false;
};

/// a and b as drawn, or rounded to fp32.
WideOperands wide_operands(const Format& format, Distribution distribution, std::int64_t seed, double scale,
                           std::int64_t m, std::int64_t n, std::int64_t k);

/// What the errors of some outputs are relative to the sum of |a||b| of each, and against the exact products.
struct WideErrors {
    double max_error = 0;
    std::size_t not_correct = 0;  ///< outputs that are not the exact value, rounded once
};
WideErrors wide_errors(const WideOperands& x, const std::vector<double>& out);
/// One fp64 fma for each term, k ascending.
std::vector<double> fp64_chain(const WideOperands& x);

/// In words, where digits of this many bits cannot all be exact: machine, k and the rule's number; empty where they are.
/// Every combination of a grid's machines and k that the rule forbids, a line each.
std::string beyond_exactness(const ViaGrid& grid);

/// `note` receives what a user should know: how many slices ozaki1:auto chose.
void run_via(Backend& backend, ThreadPool& pool, const ViaGrid& grid,
             const std::function<void(const reports::GemmRow&)>& row,
             const std::function<void(const std::string&)>& note = {});

}  // namespace macheps::study
