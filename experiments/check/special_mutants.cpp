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

/// The results where subnormal operands are zero.
std::vector<double> with_flushed_operands(const Problem& problem, const Limits& limits, ThreadPool& pool) {
    Problem flushed = problem;
    bool any = false;
    for (Input& input : flushed.inputs) {
        const auto format = problem.declaration.formats.find(input.name);
        if (format != problem.declaration.formats.end()) any |= flush(format->second.format, input.values);
    }
    if (problem.products != nullptr) {
        ProductOperands of = problem.products->operands();
        const bool is_a = flush(of.a_format, of.a), is_b = flush(of.b_format, of.b);
        if (is_a || is_b)
            flushed.products = std::make_shared<const Products>(std::move(of), problem.declaration.machine, pool);
        any |= is_a || is_b;
    }
    return any ? mutated(flushed, {}, pool) : limits.exact;
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

void add_special_mutants(const Problem& problem, const Limits& limits, ThreadPool& pool, std::vector<Mutant>& mutants) {
    constexpr std::string_view kind = "specials";
    const auto add = [&](const char* name, const std::vector<double>& exact, const std::vector<double>& outputs) {
        mutants.push_back(exact.empty() ? Mutant{.name = name, .kind = kind, .required_by = Power::all}
                                        : try_mutant(limits, name, kind, Power::all, exact, outputs));
    };
    const std::vector<double> swallowed = changed(limits, [](double x) { return std::isnan(x) ? 0 : x; });
    add("NaN swallowed", swallowed, stored_all(limits, swallowed));
    const double most = decode64(limits.format, limits.format.max_finite_code() << limits.format.padding);
    const std::vector<double> finite =
        changed(limits, [&](double x) { return std::fabs(x) > most ? std::copysign(most, x) : x; });
    add("infinity made the largest number", finite, finite);
    const std::vector<double> flushed = with_flushed_operands(problem, limits, pool);
    std::vector<double> outputs = stored_all(limits, flushed);
    const bool is_result_flushed = flush(limits.format, outputs);
    add("subnormals flushed", is_result_flushed || flushed != limits.exact ? flushed : std::vector<double>{}, outputs);
    if (problem.products != nullptr && limits.size() > 1) {
        const std::vector<double> kept = uncleared(limits);
        add("accumulator not cleared", kept, stored_all(limits, kept));
    }
}

void add_size_mutants(const Limits& limits, std::vector<Mutant>& mutants) {
    if (limits.size() < 2) return;
    const auto add = [&](const char* name, const std::vector<double>& exact) {
        mutants.push_back(try_mutant(limits, name, "size", Power::all, exact, stored_all(limits, exact)));
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
