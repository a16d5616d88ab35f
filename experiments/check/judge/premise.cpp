// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/premise.hpp"

#include "experiments/check/bounds/interpret.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

/// Shares of the limits of T2 (probable bounds) and T3 (z). If a legal kernel exceeds this share of a limit, rounding
/// errors are not independent. Independent errors reach only about an eighth of T2's limit. That limit assumes that
/// every partial sum is as large as the sum of all magnitudes and that every rounding error is half an ulp. This
/// overestimates the standard deviation several times. In addition, the limit allows 6 to 8 standard deviations.
constexpr double share_of_probable = 0.25;
constexpr double share_of_z = 0.5;

// Maximum cost of one call of holds_at() or holds_for(), in added terms. Evaluating a list of nodes for one element
// costs as much as adding 16 terms.
constexpr std::int64_t output_budget = 1 << 22, block_budget = 1 << 22, element_cost = 16;
constexpr std::int64_t max_outputs = 32;

}  // namespace

Premise::Premise(const Problem& problem, const Limits& limits)
    : problem_(problem), limits_(limits), errors_(limits, limits.exact), stored_(limits), half_ulp_(limits.format) {}

OwnKernels& Premise::kernels() {
    if (!kernels_) kernels_.emplace(problem_);
    return *kernels_;
}

void Premise::record(Dependence found) {
    if (!dependence_) dependence_ = std::move(found);
}

/// Returns how many outputs can be computed within a budget of added terms. If the outputs of a row are computed
/// together, returns how many rows.
std::int64_t Premise::affordable(std::int64_t budget) const {
    const OwnKernels& own = *kernels_;
    const bool is_product = problem_.products != nullptr;
    const double each = static_cast<double>(own.terms()) * static_cast<double>(own.orders().size()) *
                        static_cast<double>(is_product ? (own.makes_rows() ? problem_.columns : 1) : element_cost);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(budget) / std::max(each, 1.0)));
}

/// Returns the systematic part of an output's probable bound, which covers errors that may all have the same sign.
double Premise::systematic(std::int64_t output) {
    if (problem_.is_reduced()) return 0;
    const std::int64_t width = problem_.is_one_per_row() ? 1 : problem_.columns, row = output / width;
    if (row != systematic_row_) {
        systematic_ = systematic_errors(problem_, row);
        systematic_row_ = row;
    }
    return systematic_[static_cast<std::size_t>(output % width)];
}

/// Returns the legal kernel, if any, that refutes the premise of independent errors at one output.
const std::optional<Dependence>& Premise::refuted_at(std::int64_t output) {
    const auto known = outputs_.find(output);
    if (known != outputs_.end()) return known->second;
    const auto i = static_cast<std::size_t>(output);
    const double last = limits_.is_narrow ? half_ulp_(limits_.exact[i]) : 0, mean = systematic(output),
                 allowed = mean + std::max(limits_.probable[i] - last - mean, 0.0) * share_of_probable;
    std::optional<Dependence> found;
    double most = allowed;
    kernels().output(output, [&](std::size_t order, double value) {
        const double off = std::fabs((value - limits_.exact[i]) - limits_.low[i]);
        if (!(off > most)) return;
        most = off;
        found = {kernels().orders()[order].name, "T2", output, off / std::max(limits_.probable[i] - last, allowed)};
    });
    return outputs_.emplace(output, std::move(found)).first->second;
}

bool Premise::holds_at(std::span<const std::int64_t> outputs) {
    kernels();
    const auto count = static_cast<std::int64_t>(outputs.size());
    const std::int64_t asked = std::min({count, max_outputs, affordable(output_budget)});
    std::int64_t refuted = 0;
    std::optional<Dependence> first;
    for (std::int64_t i = 0; i < asked; ++i) {
        const std::optional<Dependence>& found = refuted_at(outputs[static_cast<std::size_t>(i * count / asked)]);
        if (!found) continue;
        ++refuted;
        if (!first) first = found;
    }
    const bool holds = 2 * refuted < asked || asked == 0;
    if (!holds) record(std::move(*first));
    return holds;
}

bool Premise::holds_for(const OutputBlock& block) {
    const auto key = std::tuple(block.row, block.rows, block.column, block.columns);
    const auto known = blocks_.find(key);
    if (known != blocks_.end()) return known->second;
    const bool holds = !is_refuted(block);
    blocks_.emplace(key, holds);
    return holds;
}

bool Premise::is_refuted(const OutputBlock& block) {
    OwnKernels& own = kernels();
    std::vector<Squares> sums(own.orders().size());
    const auto observe = [&](std::int64_t row, std::int64_t column) {
        const std::int64_t at = row * limits_.columns + column;
        const auto i = static_cast<std::size_t>(at);
        if (!errors_.is_counted(i)) return;
        own.output(at, [&](std::size_t order, double value) {
            const double got = stored_(value);
            if (std::isfinite(got)) sums[order].add(errors_.squares_of(i, got));
        });
    };
    // Compute equally spaced outputs of the block, at least as many as T3 needs.
    const auto least = static_cast<std::int64_t>(GroupedErrors::min_group);
    if (own.makes_rows()) {
        const std::int64_t rows =
            std::min(block.rows, std::max(affordable(block_budget), (least - 1) / block.columns + 1));
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < block.columns; ++c)
                observe(block.row + r * block.rows / rows, block.column + c);
        }
    } else {
        const std::int64_t count = std::min(block.size(), std::max(affordable(block_budget), least));
        for (std::int64_t n = 0; n < count; ++n) {
            const auto place = static_cast<std::int64_t>(static_cast<double>(n) * static_cast<double>(block.size()) /
                                                         static_cast<double>(count));
            observe(block.row + place / block.columns, block.column + place % block.columns);
        }
    }
    const auto worst = std::max_element(sums.begin(), sums.end(), [](const Squares& x, const Squares& y) {
        return (x.count > 0 ? x.excess() : 0) < (y.count > 0 ? y.excess() : 0);
    });
    if (worst->count == 0) return false;
    const auto allowed_of = [](double n) { return z_limit * std::sqrt(8 / n); };
    const double excess = worst->excess();
    // Counting distinct outputs is slow for large blocks and never lowers the limit, so the cheap test comes first.
    if (!(excess > share_of_z * allowed_of(static_cast<double>(block.size())))) return false;
    const double kinds = errors_.distinct(block);
    if (kinds < GroupedErrors::min_group) return false;  // T3 does not judge a block with so few distinct errors
    // The mean square of n independent uniform errors of variance 1 has a standard deviation of sqrt(0.8 / n).
    const double varies = 4 * std::sqrt(0.8 / std::min(kinds, worst->count));
    if (!(excess > std::max(share_of_z * allowed_of(kinds), varies))) return false;
    record({own.orders()[static_cast<std::size_t>(worst - sums.begin())].name, "T3",
            block.row * limits_.columns + block.column, excess / allowed_of(kinds)});
    return true;
}

}  // namespace macheps::check
