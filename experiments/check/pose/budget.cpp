// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/pose/budget.hpp"

#include "experiments/check/bounds/sample.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace macheps::check {

namespace {

/// Returns the first `columns` elements of rows [row, row + rows), or nothing if `from` is empty.
std::vector<double> corner_of(const std::vector<double>& from, std::int64_t row, std::int64_t rows,
                              std::int64_t columns, std::int64_t stride) {
    std::vector<double> to;
    for (std::int64_t r = row; r < row + rows && !from.empty(); ++r)
        to.insert(to.end(), from.begin() + r * stride, from.begin() + r * stride + columns);
    return to;
}

}  // namespace

std::int64_t every_within(const ProductOperands& of, const std::optional<MatmulRule>& rule, const SumFreedom& freedom,
                          double seconds, ThreadPool& pool) {
    std::int64_t batch = 0;
    while (batch < of.batches && of.first_row(batch) == of.first_row(batch + 1)) ++batch;
    if (batch == of.batches) return 1;
    const std::int64_t first = of.first_row(batch), rows = std::min<std::int64_t>(of.first_row(batch + 1) - first, 32),
                       columns = std::min<std::int64_t>(of.n, 128 * pool.threads()), matrix = of.has_one_b ? 0 : batch;
    ProductOperands corner{.m = rows, .n = columns, .k = of.k, .a_format = of.a_format, .b_format = of.b_format};
    corner.k_block = of.k_block;
    corner.scale_format = of.scale_format;
    corner.a = corner_of(of.a, first, rows, of.k, of.k);
    corner.raw_a = corner_of(of.raw_a, first, rows, of.k, of.k);
    corner.a_factors = corner_of(of.a_factors, first, rows, of.blocks(), of.blocks());
    corner.b = corner_of(of.b, matrix * of.k, of.k, columns, of.n);
    corner.raw_b = corner_of(of.raw_b, matrix * of.k, of.k, columns, of.n);
    corner.b_factors = corner_of(of.b_factors, matrix * of.blocks(), of.blocks(), columns, of.n);
    const auto begin = std::chrono::steady_clock::now();
    const Products products(std::move(corner), rule, pool, freedom);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                 whole = took * static_cast<double>(of.rows()) * static_cast<double>(of.n) /
                         (static_cast<double>(rows) * static_cast<double>(columns));
    std::int64_t every = 1;
    while (every < max_every && whole / static_cast<double>(every) > seconds) every *= 2;
    return every;
}

}  // namespace macheps::check
