// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/special_mutants.hpp"

#include "core/codec.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

constexpr std::int64_t tile = 16;

bool is_subnormal(const Format& format, double x) {
    return x != 0 && std::fabs(x) < Format::power_of_two(format.emin()) && format.min_normal_code() > 1;
}

/// Sets subnormal numbers to zero; whether there were any.
bool flush(const Format& format, std::vector<double>& values) {
    bool any = false;
    for (double& x : values) {
        if (!is_subnormal(format, x)) continue;
        x = 0;
        any = true;
    }
    return any;
}

bool has_subnormal(const Format& format, const std::vector<double>& values) {
    return std::any_of(values.begin(), values.end(), [&](double x) { return is_subnormal(format, x); });
}

/// The results where subnormal operands are zero; the right ones where none is subnormal, which costs no copy of them.
std::vector<double> with_flushed_operands(const Problem& problem, const Limits& limits, ThreadPool& pool) {
    const auto format_of = [&](const Input& input) {
        const auto format = problem.declaration.formats.find(input.name);
        return format == problem.declaration.formats.end() ? fp32 : format->second.format;
    };
    bool is_changed = std::any_of(problem.inputs.begin(), problem.inputs.end(),
                                  [&](const Input& input) { return has_subnormal(format_of(input), input.values); });
    std::shared_ptr<const Products> products = problem.products;
    if (products != nullptr) {
        const ProductOperands& right = products->operands();
        if (has_subnormal(right.a_format, right.a) || has_subnormal(right.b_format, right.b)) {
            ProductOperands of = right;
            flush(of.a_format, of.a);
            flush(of.b_format, of.b);
            products = std::make_shared<const Products>(std::move(of), problem.declaration.machine, pool);
            is_changed = true;
        }
    }
    if (!is_changed) return limits.exact;
    Problem flushed = problem;
    flushed.products = products;
    for (Input& input : flushed.inputs) flush(format_of(input), input.values);
    return mutated(flushed, {}, pool);
}

std::vector<double> stored_all(const Limits& limits, const std::vector<double>& exact) {
    std::vector<double> outputs(exact.size());
    std::transform(exact.begin(), exact.end(), outputs.begin(), [&](double x) { return stored(limits, x); });
    return outputs;
}

/// Every result by a function of the right one; empty where that changes none.
template <class Function>
std::vector<double> changed(const Limits& limits, Function function) {
    const auto differs = [&](double x) { return !(function(x) == x || std::isnan(function(x))); };
    if (std::none_of(limits.exact.begin(), limits.exact.end(), differs)) return {};
    std::vector<double> values(limits.exact.size());
    std::transform(limits.exact.begin(), limits.exact.end(), values.begin(), function);
    return values;
}

/// A tile whose accumulators still hold the outputs of the row before it.
std::vector<double> uncleared(const Limits& limits) {
    std::vector<double> kept = limits.exact;
    const std::int64_t row = limits.rows / tile / 2 * tile, column = limits.columns / tile / 2 * tile;
    for (std::int64_t r = row; r < std::min(row + tile, limits.rows); ++r) {
        for (std::int64_t c = column; c < std::min(column + tile, limits.columns); ++c) {
            const std::int64_t i = r * limits.columns + c,
                               before = (i + limits.size() - limits.columns) % limits.size();
            kept[static_cast<std::size_t>(i)] += limits.exact[static_cast<std::size_t>(before)];
        }
    }
    return kept;
}

}  // namespace

void for_special_mutants(const Problem& problem, const Limits& limits, ThreadPool& pool, const TryMutant& tries) {
    const std::vector<double> swallowed = changed(limits, [](double x) { return std::isnan(x) ? 0 : x; });
    tries("NaN swallowed", swallowed, stored_all(limits, swallowed));
    const double most = decode64(limits.format, limits.format.max_finite_code() << limits.format.padding);
    const std::vector<double> finite =
        changed(limits, [&](double x) { return std::fabs(x) > most ? std::copysign(most, x) : x; });
    tries("infinity made the largest number", finite, finite);
    const std::vector<double> flushed = with_flushed_operands(problem, limits, pool);
    std::vector<double> outputs = stored_all(limits, flushed);
    const bool is_result_flushed = flush(limits.format, outputs);
    if (!is_result_flushed && flushed == limits.exact) {
        tries("subnormals flushed", {}, {});
    } else {
        tries("subnormals flushed", flushed, outputs);
    }
    if (problem.products != nullptr && limits.size() > 1) {
        const std::vector<double> kept = uncleared(limits);
        tries("accumulator not cleared", kept, stored_all(limits, kept));
    }
}

void add_size_mutants(const Limits& limits, std::vector<Mutant>& mutants) {
    if (limits.size() < 2) return;
    const auto add = [&](const char* name, const std::vector<double>& exact) {
        Mutant mutant{.name = name, .kind = "size", .required_by = Power::all};
        for (std::size_t i = 0; i < exact.size(); ++i) {
            const double change = std::fabs(exact[i] - limits.exact[i]);
            if (change > 0) mutant.largest = std::max(mutant.largest, change / limits.certain[i]);
        }
        mutant.certified = mutant.largest > 2;
        mutant.caught =
            mutant.certified || !judge(limits, stored_all(limits, exact), {.stops_at_first = true}).reasons.empty();
        mutants.push_back(std::move(mutant));
    };
    const auto middle = static_cast<std::size_t>(limits.size() / 2);
    std::vector<double> stale = limits.exact;
    stale[middle] = stale[middle - 1];
    add("one element stale", stale);
    std::vector<double> scaled = limits.exact;
    const std::int64_t row = std::min<std::int64_t>(9, limits.rows - 1);
    for (std::int64_t c = 0; c < limits.columns; ++c)
        scaled[static_cast<std::size_t>(row * limits.columns + c)] *= 1.001;
    add("one row larger by 0.001", scaled);
}

}  // namespace macheps::check
