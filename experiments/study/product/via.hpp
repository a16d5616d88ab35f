// SPDX-License-Identifier: Apache-2.0
// `gemm --via`: the errors of wide products made from narrow ones, and of an fp64 chain, over a grid of data.
#pragma once
#include "experiments/study/operands.hpp"
#include "experiments/study/product/narrow_product.hpp"
#include "reports/rows/gemm_row.hpp"

#include <functional>
#include <string>
#include <vector>

namespace macheps::study {

/// Every combination of the elements of the lists, machines innermost.
struct ViaGrid {
    Via via{};
    std::vector<SpelledRule> machines{};
    std::vector<Format> formats{};  ///< formats of the data: fp64, as drawn, or fp32
    std::vector<Distribution> distributions{Distribution::normal};
    std::vector<double> scales{1};
    std::vector<std::int64_t> seeds{0}, m{16}, n{16}, k{4096};
    int digit_bits = 0;  ///< 0: chosen by the exactness rule
    bool full = false, combines_exactly = false;
};

/// Draws a and b. They are rounded to fp32 unless the format is fp64.
WideOperands wide_operands(const Format& format, Distribution distribution, std::int64_t seed, double scale,
                           std::int64_t m, std::int64_t n, std::int64_t k);

/// Errors of outputs. `max_error` is the largest |error| relative to the sum of |a||b| of its output.
struct WideErrors {
    double max_error = 0;
    std::size_t not_correct = 0;  ///< number of outputs that are not the exact value, rounded once
};
WideErrors wide_errors(const WideOperands& x, const std::vector<double>& out);
/// Computes one fp64 fma per term, with k ascending.
std::vector<double> fp64_chain(const WideOperands& x);

/// Returns a line for each machine and k of the grid for which digits of `digit_bits` bits, or products of residues,
/// are not all exact. Empty if there is none.
std::string beyond_exactness(const ViaGrid& grid);

/// `note` receives information for the user: how many slices ozaki1:auto chose.
void run_via(Backend& backend, ThreadPool& pool, const ViaGrid& grid,
             const std::function<void(const reports::GemmRow&)>& row,
             const std::function<void(const std::string&)>& note = {});

}  // namespace macheps::study
