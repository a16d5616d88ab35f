// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/mutated.hpp"

#include "experiments/check/bounds/interpret.hpp"

#include <algorithm>

namespace macheps::check {

namespace {

/// Exchanges the values of the arrays a_scale and b_scale in `inputs`. Each array keeps its length, so the values that
/// the longer array receives are repeated.
void exchange_scales(const Problem& problem, std::vector<Input>& inputs) {
    const auto values_of = [&](std::string_view name) -> const Numbers* {
        for (const Input& input : problem.inputs) {
            if (input.name == name) return &input.values;
        }
        return nullptr;
    };
    const Numbers *a = values_of("a_scale"), *b = values_of("b_scale");
    if (a == nullptr || b == nullptr) return;
    for (Input& input : inputs) {
        const Numbers* other = input.name == "a_scale" ? b : input.name == "b_scale" ? a : nullptr;
        if (other == nullptr) continue;
        std::vector<double>& values = input.values.held();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = (*other)[i % other->size()];
    }
}

/// Returns the inputs as a wrong kernel with this defect reads them, or an empty vector if the kernel reads them
/// correctly.
std::vector<Input> misread(const Problem& problem, const Defect& defect) {
    if (defect.shifted.empty() && defect.next.empty() && !defect.exchanges_scales) return {};
    std::vector<Input> inputs = problem.inputs;
    if (defect.exchanges_scales) exchange_scales(problem, inputs);
    for (Input& input : inputs) {
        if (input.name == defect.shifted && !input.values.empty()) {
            const auto by = input.neighbour % static_cast<std::int64_t>(input.values.size());
            input.values.rotate(static_cast<std::size_t>(by));
        }
        if (input.name != defect.next) continue;
        const std::int64_t rows =
            static_cast<std::int64_t>(input.values.size()) / std::max<std::int64_t>(1, problem.columns);
        for (std::int64_t& row : input.rows) row = (row + 1) % rows;
        for (double& place : input.values.held()) {
            const std::int64_t next = input.rows.empty() ? static_cast<std::int64_t>(place) + 1 : 0;
            if (next > 0) place = static_cast<double>(next % problem.columns);
        }
    }
    return inputs;
}

}  // namespace

std::int64_t outputs_of_row(const Problem& problem) {
    return problem.is_reduced() ? problem.outputs() : problem.is_one_per_row() ? 1 : problem.columns;
}

std::vector<OutputRange> growing_parts(const Problem& problem) {
    if (problem.is_reduced()) return {{0, problem.outputs()}};
    const std::int64_t unit = outputs_of_row(problem), columns = std::max<std::int64_t>(problem.columns, 1);
    std::vector<OutputRange> parts;
    for (std::int64_t row = 0, elements = 1 << 16; row < problem.rows; elements = 1 << 20) {
        // If the rows after this part would be less than a quarter of its size, this part takes them too.
        std::int64_t end = std::min(problem.rows, row + std::max<std::int64_t>(1, elements / columns));
        if ((problem.rows - end) * columns < elements / 4) end = problem.rows;
        parts.push_back({row * unit, end * unit});
        row = end;
    }
    return parts;
}

Mutated::Mutated(const Problem& problem, const Defect& defect)
    : problem_(problem),
      defect_(defect),
      misread_(misread(problem, defect)),
      inputs_(misread_.empty() ? problem.inputs : misread_),
      nodes_(listing_of(problem, inputs_, defect_).nodes.list()) {}

void Mutated::results(const OutputRange& range, std::span<double> out, ThreadPool& pool) const {
    const std::int64_t unit = outputs_of_row(problem_);
    const auto count = static_cast<std::size_t>(problem_.is_one_per_row() ? 1 : problem_.columns);
    std::vector<ProductSum> sums(problem_.is_reduced() ? static_cast<std::size_t>(problem_.rows) : 0);
    const std::int64_t first = problem_.is_reduced() ? 0 : range.first / unit,
                       last = problem_.is_reduced() ? problem_.rows : range.last / unit;
    for_rows(problem_, first, last, pool, [&](std::int64_t row, Frame& frame) {
        reference(nodes_, row_of(problem_, row, defect_.dropped, frame, inputs_), frame.values);
        if (problem_.is_reduced()) {
            sums[static_cast<std::size_t>(row)].sum = frame.values.back()[0];
            return;
        }
        for (std::size_t j = 0; j < count; ++j)
            out[static_cast<std::size_t>(row - first) * count + j] = frame.values.back()[j].high;
    });
    if (!problem_.is_reduced()) return;
    Columns<Wide> values;
    const Listing across = across_of(problem_, inputs_, defect_);
    reference(across.nodes.list(), across_row(problem_, inputs_, sums), values);
    out[0] = values.back()[0].high;
}

std::vector<double> with_sums(const Problem& problem, std::int64_t first, std::int64_t count, ThreadPool& pool,
                              const std::function<void(std::int64_t, std::vector<ProductSum>&)>& sums) {
    const Listing listing = listing_of(problem, problem.inputs, {});
    std::vector<double> out(static_cast<std::size_t>(count * problem.columns));
    pool.run(count, [&](std::int64_t row) {
        Frame frame;
        sums(first + row, frame.products);
        const Row r{.row = first + row,
                    .columns = problem.columns,
                    .first = 0,
                    .count = problem.columns,
                    .inputs = &problem.inputs,
                    .products = &frame.products};
        reference(listing.nodes.list(), r, frame.values);
        for (std::int64_t j = 0; j < problem.columns; ++j)
            out[static_cast<std::size_t>(row * problem.columns + j)] =
                frame.values.back()[static_cast<std::size_t>(j)].high;
    });
    return out;
}

}  // namespace macheps::check
