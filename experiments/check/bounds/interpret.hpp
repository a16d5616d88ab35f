// SPDX-License-Identifier: Apache-2.0
// Prepares the rows of a problem, and the operation's list of nodes, for the interpreters of truth/nodes.hpp.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <algorithm>
#include <vector>

namespace macheps::check {

/// Buffers that a worker reuses for one row after another.
struct Frame {
    Columns<Wide> values{}, rounded{};
    Columns<double> bounds{}, certificates{};
    Overflows overflows{};
    Columns<Spread> spreads{};
    std::vector<ProductSum> products{};
};

inline Row row_of(const Problem& problem, std::int64_t row, std::int64_t dropped, Frame& frame,
                  const std::vector<Input>& inputs) {
    Row r{.row = row, .columns = problem.columns, .first = 0, .count = problem.columns, .inputs = &inputs};
    if (problem.products == nullptr) return r;
    problem.products->row(row, dropped, frame.products);
    r.products = &frame.products;
    const SumError addend = problem.products->addend_error();
    r.addend_certain = addend.certain;
    r.addend_mean = addend.mean;
    r.addend_spread = addend.spread;
    return r;
}

inline Listing listing_of(const Problem& problem, const std::vector<Input>& inputs, const Defect& defect) {
    Listing listing{.declaration = problem.declaration, .inputs = inputs, .defect = defect, .columns = problem.columns};
    if (!defect.functions.empty())
        listing.nodes.make_functions(find_functions(defect.functions), find_functions(problem.declaration.functions));
    // Two kinds of defects have an effect only if every step is rounded to fp32. A kernel with another form of the
    // operation (defect.form) differs only in its roundings. In a kernel whose maximum starts at a constant
    // (defect.start), exponentials underflow.
    if (!defect.form.empty() || defect.start) listing.nodes.round_steps();
    problem.declaration.operation->list(listing);
    return listing;
}

/// Returns the list of nodes that reduces the results of all rows to one number.
inline Listing across_of(const Problem& problem, const std::vector<Input>& inputs, const Defect& defect) {
    Listing listing{.declaration = problem.declaration, .inputs = inputs, .defect = defect, .columns = problem.rows};
    problem.declaration.operation->across(listing);
    return listing;
}
inline Row across_row(const Problem& problem, const std::vector<Input>& inputs,
                      const std::vector<ProductSum>& results) {
    return {.columns = problem.rows, .count = problem.rows, .inputs = &inputs, .products = &results};
}

/// Returns the number of rows per task: enough work for a thread, but not more than fits into its caches.
inline std::int64_t rows_per_task(const Problem& problem) {
    return std::max<std::int64_t>(16, (1 << 14) / std::max<std::int64_t>(problem.columns, 1));
}

template <class Function>
void for_rows(const Problem& problem, std::int64_t first, std::int64_t last, ThreadPool& pool, Function function) {
    const std::int64_t step = rows_per_task(problem);
    pool.run((last - first + step - 1) / step, [&](std::int64_t task) {
        Frame frame;
        for (std::int64_t row = first + task * step; row < std::min(last, first + (task + 1) * step); ++row)
            function(row, frame);
    });
}

}  // namespace macheps::check
