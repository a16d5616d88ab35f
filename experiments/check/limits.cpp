// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/limits.hpp"

#include "core/ulp.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace macheps::check {

namespace {

/// What a worker needs for one row after the other.
struct Frame {
    Columns<Wide> values{};
    Columns<double> bounds{}, certificates{};
    Columns<Spread> spreads{};
    std::vector<ProductSum> products{};
};

Row row_of(const Problem& problem, std::int64_t row, std::int64_t dropped, Frame& frame,
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

Listing listing_of(const Problem& problem, const std::vector<Input>& inputs, const Defect& defect) {
    Listing listing{.declaration = problem.declaration, .inputs = inputs, .defect = defect, .columns = problem.columns};
    problem.declaration.operation->list(listing);
    return listing;
}

constexpr std::int64_t rows_per_task = 16;

template <class Function>
void for_rows(std::int64_t rows, ThreadPool& pool, Function function) {
    pool.run((rows + rows_per_task - 1) / rows_per_task, [&](std::int64_t task) {
        Frame frame;
        for (std::int64_t row = task * rows_per_task; row < std::min(rows, (task + 1) * rows_per_task); ++row)
            function(row, frame);
    });
}

/// Each of the two arrays of scales holds the other's, from the beginning again where it is longer.
void exchange_scales(const Problem& problem, std::vector<Input>& inputs) {
    const auto values_of = [&](std::string_view name) -> const std::vector<double>* {
        for (const Input& input : problem.inputs) {
            if (input.name == name) return &input.values;
        }
        return nullptr;
    };
    const std::vector<double>*a = values_of("a_scale"), *b = values_of("b_scale");
    if (a == nullptr || b == nullptr) return;
    for (Input& input : inputs) {
        const std::vector<double>* other = input.name == "a_scale" ? b : input.name == "b_scale" ? a : nullptr;
        if (other == nullptr) continue;
        for (std::size_t i = 0; i < input.values.size(); ++i) input.values[i] = (*other)[i % other->size()];
    }
}

}  // namespace

Limits limits_of(const Problem& problem, double delta, ThreadPool& pool) {
    const bool is_one = problem.is_one_per_row();
    Limits limits{.format = problem.output,
                  .is_narrow = problem.output.precision < fp32.precision || problem.output.emin() > fp32.emin(),
                  .saturates = problem.declaration.saturates,
                  .rows = is_one ? 1 : problem.rows,
                  .columns = is_one ? problem.rows : problem.columns,
                  .group_rows = is_one ? 1 : problem.group_rows};
    const auto size = static_cast<std::size_t>(limits.size());
    for (auto* each :
         {&limits.exact, &limits.low, &limits.before, &limits.certain, &limits.probable, &limits.deviation})
        each->resize(size);
    const Defect none{};
    const Listing listing = listing_of(problem, problem.inputs, none);
    const std::vector<Node>& nodes = listing.nodes.list();
    const FunctionTable& functions = find_functions(problem.declaration.functions);
    const Arithmetic kernel = kernel_arithmetic(functions.exponential, functions.logarithm, functions.inverse_root),
                     own = reference_arithmetic();
    const double lambda = std::sqrt(2 * math::log(2 * static_cast<double>(size) / delta));
    std::atomic<std::int64_t> declined{limits.size()};
    for_rows(problem.rows, pool, [&](std::int64_t row, Frame& frame) {
        const Row r = row_of(problem, row, 0, frame, problem.inputs);
        reference(nodes, r, frame.values);
        bound(nodes, r, frame.values, kernel, frame.bounds);
        bound(nodes, r, frame.values, own, frame.certificates);
        spread(nodes, r, frame.values, frame.bounds, kernel, frame.spreads);
        const std::size_t count = is_one ? 1 : static_cast<std::size_t>(problem.columns);
        for (std::size_t j = 0; j < count; ++j) {
            const std::size_t i = static_cast<std::size_t>(row) * count + j;
            const Wide y = frame.values.back()[j];
            const double certificate = frame.certificates.back()[j], before = frame.bounds.back()[j];
            const Spread& s = frame.spreads.back()[j];
            const double likely = std::min(before, s.linear + lambda * (s.own + s.shared)) + certificate,
                         certain = before + certificate;
            const auto rounded = [&](double e) {
                return limits.is_narrow ? e + half_ulp(limits.format, std::fabs(y.high) + e) : e;
            };
            const double ulp_width = limits.is_narrow ? 2 * half_ulp(limits.format, y.high) : 0,
                         common = s.linear + s.common;
            limits.exact[i] = y.high;
            limits.low[i] = y.low;
            limits.before[i] = certain;
            limits.certain[i] = rounded(certain);
            limits.probable[i] = rounded(likely);
            limits.deviation[i] = sqrt(ulp_width * ulp_width / 12 + s.own * s.own / 3 + common * common);
            const bool is_unsure = std::isfinite(y.high) &&
                                   (std::isinf(before) || (certificate > 0 && certificate >= limits.certain[i] / 4));
            if (!is_unsure) continue;
            const auto place = static_cast<std::int64_t>(i);
            std::int64_t first = declined;
            while (place < first && !declined.compare_exchange_weak(first, place)) {
            }
        }
    });
    if (declined < limits.size()) limits.declined = declined;
    return limits;
}

std::vector<double> mutated(const Problem& problem, const Defect& defect, ThreadPool& pool) {
    std::vector<Input> inputs = problem.inputs;
    for (Input& input : inputs) {
        if (input.name == defect.shifted)
            std::rotate(input.values.begin(), input.values.begin() + 1, input.values.end());
    }
    if (defect.exchanged) exchange_scales(problem, inputs);
    const Listing listing = listing_of(problem, inputs, defect);
    const std::size_t count = problem.is_one_per_row() ? 1 : static_cast<std::size_t>(problem.columns);
    std::vector<double> out(static_cast<std::size_t>(problem.outputs()));
    for_rows(problem.rows, pool, [&](std::int64_t row, Frame& frame) {
        reference(listing.nodes.list(), row_of(problem, row, defect.dropped, frame, inputs), frame.values);
        for (std::size_t j = 0; j < count; ++j)
            out[static_cast<std::size_t>(row) * count + j] = frame.values.back()[j].high;
    });
    return out;
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

double stored(const Limits& limits, double x) {
    const Overflow overflow = limits.saturates ? Overflow::saturate : Overflow::nonsaturate;
    return decode64(limits.format, encode64(limits.format, x, Round::nearest_even, overflow));
}

double overflow_threshold(const Format& format) {
    const double most = decode64(format, format.max_finite_code() << format.padding);
    return most + half_ulp(format, most);
}

}  // namespace macheps::check
