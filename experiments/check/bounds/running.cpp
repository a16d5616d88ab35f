// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/running.hpp"

#include "core/ulp.hpp"
#include "experiments/check/bounds/walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

/// Returns the error bound of an exact sum that is rounded once.
SumError exact_error(const ProductOperands& of, std::int64_t row, std::int64_t column, double magnitudes) {
    double sum = 0;
    for (std::int64_t p = 0; p < of.k; ++p) sum += of.a_at(row, p) * of.b_at(row, p, column);
    const double size = std::fabs(sum) + static_cast<double>(of.k) * 0x1p-51 * magnitudes,
                 rounding = ulp(fp32, size) / 2;
    return {.certain = rounding, .mean = 0, .spread = rounding, .range = size};
}

/// Maximum number of terms, m n k, of a product for which the running bound is computed in all rows.
constexpr std::int64_t max_walked_terms = std::int64_t{1} << 32;

bool is_one_exact_sum(const MatmulRule& rule) {
    return rule.machine->sum.model == SumModel::exact && rule.slices <= 1 && rule.promotion == Promotion::none &&
           !rule.has_blocks();
}

}  // namespace

bool is_walked(const ProductOperands& of, std::int64_t row, std::int64_t most) {
    constexpr std::int64_t tile = 16;
    const double terms = static_cast<double>(of.rows()) * static_cast<double>(of.n) * static_cast<double>(of.k);
    const auto stride = static_cast<std::int64_t>(std::ceil(terms / static_cast<double>(most)));
    return stride <= 1 || row / tile % stride == 0 || row + tile >= of.rows();
}

bool has_running_bound(const MatmulRule& rule) {
    return is_one_exact_sum(rule) || (!rule.has_blocks() && step_model(*rule.machine).has_value());
}

std::vector<SumError> running_bound(const ProductOperands& of, const MatmulRule& rule,
                                    const std::vector<double>& magnitudes, ThreadPool& pool) {
    std::vector<SumError> out(static_cast<std::size_t>(of.rows() * of.n));
    if (is_one_exact_sum(rule)) {
        pool.run(of.rows(), [&](std::int64_t row) {
            for (std::int64_t j = 0; j < of.n; ++j) {
                const auto i = static_cast<std::size_t>(row * of.n + j);
                out[i] = exact_error(of, row, j, magnitudes[i]);
            }
        });
        return out;
    }
    const StepModel step = *step_model(*rule.machine);
    const std::int64_t blocks = (of.n + Walk::width - 1) / Walk::width;
    pool.run(of.batches * blocks, [&](std::int64_t task) {
        const std::int64_t batch = task / blocks, column = task % blocks * Walk::width;
        if (of.first_row(batch) == of.first_row(batch + 1)) return;
        Walk walk(of, rule, step, of.has_one_b ? 0 : batch, column);
        for (std::int64_t row = of.first_row(batch); row < of.first_row(batch + 1); ++row) {
            const std::int64_t at = row * of.n + column;
            if (is_walked(of, row, max_walked_terms)) {
                walk.row(row, magnitudes.data() + at, out.data() + at);
            } else {
                std::fill_n(out.data() + at, std::min(Walk::width, of.n - column),
                            SumError{.certain = std::numeric_limits<double>::infinity()});
            }
        }
    });
    return out;
}

}  // namespace macheps::check
