// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/lu_blocked.hpp"

#include "core/format_table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "experiments/analysis/row_update.hpp"

#include <fmt/format.h>

namespace macheps::analysis {

namespace {

double rounded_value(const Format& format, double x) {
    return decode64(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
}

/// The operands and the addend of one update, rounded to what the sum takes. l is [rows, terms], u is [terms, columns].
struct TrailingBlock {
    std::int64_t rows = 0, columns = 0, terms = 0;
    std::vector<double> l{}, u{};
};

TrailingBlock trailing_block(std::int64_t n, const double* a, std::int64_t first, std::int64_t last, const Format& operands) {
    TrailingBlock block{.rows = n - last, .columns = n - last, .terms = last - first};
    for (std::int64_t i = last; i < n; ++i) {
        for (std::int64_t k = first; k < last; ++k) block.l.push_back(rounded_value(operands, a[i * n + k]));
    }
    for (std::int64_t k = first; k < last; ++k) {
        for (std::int64_t j = last; j < n; ++j) block.u.push_back(rounded_value(operands, a[k * n + j]));
    }
    return block;
}

/// c = c - l u, term by term, in `Real` rounded by `round`.
template <class Real, class Round>
void update_in_format(const TrailingBlock& block, std::int64_t n, double* corner, const Format& format, const Round& round,
                      ThreadPool& pool, Simd simd) {
    const std::vector<Real> u(block.u.begin(), block.u.end());
    pool.run(block.rows, [&](std::int64_t i) {
        double* row = corner + i * n;
        std::vector<Real> c(static_cast<std::size_t>(block.columns));
        for (std::int64_t j = 0; j < block.columns; ++j) c[static_cast<std::size_t>(j)] = round(static_cast<Real>(row[j]));
        for (std::int64_t k = 0; k < block.terms; ++k) {
            update_row(simd, round, static_cast<Real>(block.l[static_cast<std::size_t>(i * block.terms + k)]),
                       u.data() + k * block.columns, c.data(), block.columns);
        }
        for (std::int64_t j = 0; j < block.columns; ++j) row[j] = rounded_value(format, c[static_cast<std::size_t>(j)]);
    });
}

/// One element on a machine: instructions in order from the addend; where the rule promotes, the addend is the first value
/// of the main accumulator.
float element_on_machine(const Matmul& args, const definition::DotOperands& x, float addend) {
    const MatmulRule& rule = args.rule;
    const bool is_fp32_chain = rule.machine->sum.model == SumModel::fma_chain &&
                               rule.machine->sum.delivery == Delivery::fp32_nearest_even;
    const auto chain = [&](std::int64_t from, std::int64_t to, float start) {
        if (!is_fp32_chain) return definition::instruction_chain(args, x, from, to, start);
        float acc = start;
        for (std::int64_t p = from; p < to; ++p) acc = fma(x.a[p * x.a_step], x.b[p * x.b_step], acc);
        return acc;
    };
    if (rule.promotion == Promotion::none) return chain(0, args.k, addend);
    float main = addend;
    for (std::int64_t p = 0; p < args.k; p += rule.promotion_interval) {
        main = main + chain(p, min_of(p + rule.promotion_interval, args.k), 0);
    }
    return main;
}

void update_on_machine(const TrailingBlock& block, std::int64_t n, double* corner, const LuPlan& plan, ThreadPool& pool) {
    std::vector<float> minus_l, u(block.u.begin(), block.u.end());
    for (const double l : block.l) minus_l.push_back(static_cast<float>(-l));
    Matmul args{.m = block.rows, .n = block.columns, .k = block.terms, .rule = *plan.rule};
    args.a = {.data = minus_l.data(), .ld = block.terms, .format = plan.operands};
    args.b = {.data = u.data(), .ld = block.columns, .format = plan.operands};
    pool.run(block.rows, [&](std::int64_t i) {
        for (std::int64_t j = 0; j < block.columns; ++j) {
            double& place = corner[i * n + j];
            const definition::DotOperands x = definition::dot_operands(args, args.a.data, args.b.data, i, j);
            place = rounded_value(plan.format, element_on_machine(args, x, static_cast<float>(place)));
        }
    });
}

}  // namespace

std::string why_no_update(const LuPlan& plan) {
    if (!plan.rule) return {};
    const Machine& machine = *plan.rule->machine;
    if (plan.format.precision > 24) return "a machine's sums end in fp32: take a narrower factor";
    if (!machine.operands.contains(plan.operands)) {
        return fmt::format("{} takes no operands of {}", machine.name, format_name(plan.operands));
    }
    if (machine.has_scales()) return fmt::format("{} wants scales of its blocks", machine.name);
    if (machine.addend != machine.result) return fmt::format("{} cannot take in its own sums: C and D differ", machine.name);
    const SumModel model = machine.sum.model;
    if (model == SumModel::pairwise || model == SumModel::kahan || model == SumModel::exact) {
        return fmt::format("{} takes no addend", machine.name);
    }
    if (plan.rule->slices > 1 || plan.rule->promotion == Promotion::fma_joint || plan.rule->promotion == Promotion::fma_left) {
        return "an update has no slices and no scales: take a machine, with +promoteN at most";
    }
    return {};
}

void update_trailing(std::int64_t n, double* a, std::int64_t first, std::int64_t last, const LuPlan& plan, ThreadPool& pool,
                     Simd simd) {
    const TrailingBlock block = trailing_block(n, a, first, last, plan.operands);
    double* corner = a + last * n + last;
    if (plan.rule) {
        update_on_machine(block, n, corner, plan, pool);
    } else if (plan.accumulator == fp32) {
        update_in_format<float>(block, n, corner, plan.format, Unrounded{}, pool, simd);
    } else if (plan.accumulator == fp64) {
        update_in_format<double>(block, n, corner, plan.format, Unrounded{}, pool, simd);
    } else {
        update_in_format<double>(block, n, corner, plan.format, Rounder<double>(plan.accumulator), pool, simd);
    }
}

}  // namespace macheps::analysis
