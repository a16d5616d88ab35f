// SPDX-License-Identifier: Apache-2.0
// Implements `gemm --via`. Measures the errors of wide products that are made from narrow products, and of an fp64
// chain, over a grid of data.
#pragma once
#include "experiments/study/operands.hpp"
#include "experiments/study/product/narrow_product.hpp"
#include "reports/rows/gemm_row.hpp"

#include <functional>
#include <string>
#include <vector>

namespace macheps::study {

/// Settings of run_via, which computes every combination of the elements of the lists. The machines vary fastest.
struct ViaGrid {
    Via via{};
    std::vector<SpelledRule> machines{};
    std::vector<Format> formats{};  ///< formats of the data: fp64 (as drawn) or fp32 (rounded)
    std::vector<Distribution> distributions{Distribution::normal};
    std::vector<double> scales{1};
    std::vector<std::int64_t> seeds{0}, m{16}, n{16}, k{4096};
    int digit_bits = 0;  ///< 0: use exact_digit_bits()
    bool full = false, combines_exactly = false;
};

/// Draws the operands a and b. Rounds them to fp32 unless the format is fp64.
WideOperands wide_operands(const Format& format, Distribution distribution, std::int64_t seed, double scale,
                           std::int64_t m, std::int64_t n, std::int64_t k);

/// Errors of the outputs of a wide product. `max_error` is the largest |error| / (sum of |a||b|) of an output.
struct WideErrors {
    double max_error = 0;
    std::size_t not_correct = 0;  ///< number of outputs that differ from the exact value rounded to fp64
};
WideErrors wide_errors(const WideOperands& x, const std::vector<double>& out);
/// Computes each output as a chain of fp64 fma, with one fma per term and k ascending.
std::vector<double> fp64_chain(const WideOperands& x);

/// Returns one line for each machine and k of the grid for which products of digits (of `digit_bits` bits) or of
/// residues may be inexact. Returns an empty text if all of them are exact.
std::string beyond_exactness(const ViaGrid& grid);

/// Computes all combinations of the grid and passes each result to `row`. `note` receives messages for the user: the
/// number of slices that ozaki1:auto chose.
void run_via(Backend& backend, ThreadPool& pool, const ViaGrid& grid,
             const std::function<void(const reports::GemmRow&)>& row,
             const std::function<void(const std::string&)>& note = {});

}  // namespace macheps::study
