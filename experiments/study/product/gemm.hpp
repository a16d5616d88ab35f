// SPDX-License-Identifier: Apache-2.0
// Measures the errors of matrix products on machines against exact sums, over a grid of shapes, formats and data.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/matmul/machine_spelling.hpp"
#include "experiments/study/product/gemm_operands.hpp"
#include "reports/rows/gemm_row.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace macheps::study {

/// Grid of matrix products: every combination of the elements of these lists. The machine varies fastest.
struct GemmGrid {
    std::vector<SpelledRule> machines{};
    std::vector<FormatPair> formats{};
    std::vector<Distribution> distributions{Distribution::normal};
    std::vector<OperandScaling> scalings{OperandScaling::none};
    std::vector<double> scales{1};
    std::vector<std::int64_t> seeds{0}, m{16}, n{16}, k{4096};
    std::optional<Format> output{};  ///< absent: the result format of the machine
    double lambda = 4;
};

/// Returns whether the rule takes operands with these formats and scales. An order of summation takes only scales of
/// the whole product.
bool takes(const SpelledRule& spelled, const FormatPair& formats, OperandScaling scaling);

/// Returns the operands of a grid in the order in which they run: k varies fastest, then n, m, scale.
std::vector<GemmData> all_data(const GemmGrid& grid);

struct GemmProgress {
    std::size_t done = 0, rows = 0;  ///< number of products measured so far, and in total
    std::string_view machine{};      ///< machine of the next product
    GemmData data{};
};

/// Runs the grid. A machine is skipped for operands whose formats or scales it does not accept. `row` receives the row
/// of each product. `progress` is called before each product. Rows have the same bits for every number of threads.
/// Errors: throws Error (usage) if no machine accepts any of the operands.
void run_gemm(Backend& backend, ThreadPool& pool, const GemmGrid& grid,
              const std::function<void(const reports::GemmRow&)>& row,
              const std::function<void(const GemmProgress&)>& progress = {});

}  // namespace macheps::study
