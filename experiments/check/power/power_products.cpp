// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/power_products.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/matmul/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

/// Rounds x to a significand of `bits` bits, with an unlimited exponent (Veltkamp's splitting).
double to_bits(double x, int bits) {
    const double scaled = x * (Format::power_of_two(53 - bits) + 1);
    return std::isfinite(scaled) ? scaled - (scaled - x) : x;
}

double rounded(const Format& format, double x) {
    return decode64(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
}

/// Adds the products of terms [first, last) to the sums of a row.
void add_terms(const ProductOperands& of, std::int64_t row, std::int64_t first, std::int64_t last,
               std::vector<double>& sums) {
    for (std::int64_t p = first; p < last; ++p) {
        const double factor = of.a_at(row, p);
        const double* b = &of.b[static_cast<std::size_t>((of.batch_of_b(row) * of.k + p) * of.n)];
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += factor * b[j];
    }
}

void set_sums(const std::vector<double>& from, std::vector<ProductSum>& to) {
    to.resize(from.size());
    for (std::size_t j = 0; j < from.size(); ++j) to[j].sum = {from[j], 0};
}

/// Returns the results of a kernel that rounds the sum of each slice of k to the output's format before it adds them.
std::vector<double> with_rounded_slices(const Problem& problem, std::int64_t slices, ThreadPool& pool) {
    const ProductOperands& of = problem.products->operands();
    return with_sums(problem, 0, simulated_rows(problem), pool, [&](std::int64_t row, std::vector<ProductSum>& out) {
        const auto n = static_cast<std::size_t>(of.n);
        std::vector<double> all(n), part(n);
        for (std::int64_t s = 0; s < slices; ++s) {
            std::fill(part.begin(), part.end(), 0);
            add_terms(of, row, s * of.k / slices, (s + 1) * of.k / slices, part);
            for (std::size_t j = 0; j < n; ++j) all[j] += rounded(problem.output, part[j]);
        }
        set_sums(all, out);
    });
}

/// Returns the exact results for the operands `other` instead of those of the check.
std::vector<double> with_operands(const Problem& problem, const ProductOperands& other, ThreadPool& pool) {
    return with_sums(problem, 0, simulated_rows(problem), pool, [&](std::int64_t row, std::vector<ProductSum>& out) {
        std::vector<double> all(static_cast<std::size_t>(other.n));
        add_terms(other, row, 0, other.k, all);
        set_sums(all, out);
    });
}

/// Returns the results of a kernel that rounds its operands to a narrower format.
std::vector<double> with_operands(const Problem& problem, const Format& format, Round mode, ThreadPool& pool) {
    ProductOperands narrow = problem.products->operands();
    for (std::vector<double>* x : {&narrow.a, &narrow.b}) {
        for (double& each : *x) each = decode64(format, encode64(format, each, mode, Overflow::nonsaturate));
    }
    return with_operands(problem, narrow, pool);
}

/// Returns the results of a kernel that splits each fp32 operand into two bf16 parts and computes only three of the
/// four products of these parts (bf16x3).
std::vector<double> in_three_products(const Problem& problem, ThreadPool& pool) {
    ProductOperands both = problem.products->operands(), low = both;
    for (const auto& [sum, rest] : {std::pair{&both.a, &low.a}, std::pair{&both.b, &low.b}}) {
        for (std::size_t i = 0; i < sum->size(); ++i) {
            const double x = (*sum)[i], first = rounded(bf16, x), second = rounded(bf16, x - first);
            (*sum)[i] = first + second;
            (*rest)[i] = second;
        }
    }
    return with_sums(problem, 0, simulated_rows(problem), pool, [&](std::int64_t row, std::vector<ProductSum>& out) {
        std::vector<double> all(static_cast<std::size_t>(both.n)), left_out(all.size());
        add_terms(both, row, 0, both.k, all);
        add_terms(low, row, 0, low.k, left_out);
        for (std::size_t j = 0; j < all.size(); ++j) all[j] -= left_out[j];
        set_sums(all, out);
    });
}

/// Returns the results of a kernel that multiplies every block of one operand by the scale of the next block along k.
std::vector<double> with_next_scales(const Problem& problem, bool of_b, ThreadPool& pool) {
    ProductOperands wrong = problem.products->operands();
    std::vector<double>& factors = of_b ? wrong.b_factors : wrong.a_factors;
    const std::int64_t blocks = wrong.blocks(), step = of_b ? wrong.n : 1, plane = blocks * step;
    for (auto first = factors.begin(); first != factors.end(); first += plane)
        std::rotate(first, first + step, first + plane);
    wrong.scale();
    return with_operands(problem, wrong, pool);
}

/// Returns the results of an emulated machine with the given rule.
std::vector<double> with_rule(const Problem& problem, const MatmulRule& rule, ThreadPool& pool) {
    const ProductOperands& of = problem.products->operands();
    const std::int64_t rows = simulated_rows(problem);
    const std::vector<float> a(of.a.begin(), of.a.begin() + rows * of.k), b(of.b.begin(), of.b.begin() + of.k * of.n);
    std::vector<float> sums(static_cast<std::size_t>(rows * of.n));
    CpuBackend backend(pool.threads());
    Matmul args{.m = rows, .n = of.n, .k = of.k};
    args.a = {.data = a.data(), .ld = of.k, .format = of.a_format};
    args.b = {.data = b.data(), .ld = of.n, .format = of.b_format};
    args.out = sums.data();
    args.ld_out = of.n;
    args.rule = rule;
    backend.matmul(args);
    return with_sums(problem, 0, rows, pool, [&](std::int64_t row, std::vector<ProductSum>& out) {
        const auto* from = sums.data() + row * of.n;
        set_sums(std::vector<double>(from, from + of.n), out);
    });
}

}  // namespace

std::int64_t simulated_rows(const Problem& problem) {
    const ProductOperands& of = problem.products->operands();
    const std::int64_t fit = (std::int64_t{1} << 24) / std::max<std::int64_t>(of.n * of.k, 1);
    const std::int64_t batch = of.batch_of(0);
    return std::min(of.first_row(batch + 1), std::max<std::int64_t>(fit / 16 * 16, 16));
}

Limits first_rows(const Limits& limits, std::int64_t rows) {
    Limits part{.format = limits.format,
                .is_narrow = limits.is_narrow,
                .saturates = limits.saturates,
                .flushes = limits.flushes,
                .is_bitwise = limits.is_bitwise,
                .rounding = limits.rounding,
                .random_bits = limits.random_bits,
                .rows = rows,
                .columns = limits.columns,
                .group_rows = rows};
    const auto first_of = [size = part.size()](const auto& column) {
        return std::vector(column.begin(), column.begin() + size);
    };
    for (const auto member :
         {&Limits::exact, &Limits::low, &Limits::before, &Limits::certain, &Limits::probable, &Limits::deviation})
        part.*member = first_of(limits.*member);
    part.overflow = first_of(limits.overflow);
    if (!limits.rounded_inside.empty()) part.rounded_inside = first_of(limits.rounded_inside);
    for (const auto& kinds : limits.inner_kinds) part.inner_kinds.emplace_back(first_of(kinds));
    return part;
}

std::vector<double> with_accumulator(const Problem& problem, int bits, ThreadPool& pool) {
    const ProductOperands& of = problem.products->operands();
    constexpr std::int64_t step = 8;
    return with_sums(problem, 0, simulated_rows(problem), pool, [&](std::int64_t row, std::vector<ProductSum>& out) {
        std::vector<double> sums(static_cast<std::size_t>(of.n));
        for (std::int64_t p = 0; p < of.k; p += step) {
            add_terms(of, row, p, std::min(p + step, of.k), sums);
            for (double& each : sums) each = to_bits(each, bits);
        }
        set_sums(sums, out);
    });
}

std::vector<WrongProduct> wrong_products(const Problem& problem, ThreadPool& pool) {
    const ProductOperands& of = problem.products->operands();
    const std::optional<MatmulRule>& rule = problem.declaration.machine;
    const Format accumulator = rule ? rule->machine->result : fp32;
    std::vector<WrongProduct> all;
    const auto add = [&](std::string name, std::vector<double> exact, bool is_simulated = true) {
        all.push_back({std::move(name), "precision", Power::precision, std::move(exact), is_simulated});
    };
    if (of.k > 8 && accumulator.precision > fp16.precision)
        add("fp16 accumulator", with_accumulator(problem, fp16.precision, pool));
    if (of.k > 8 && accumulator.precision > bf16.precision)
        add("bf16 accumulator", with_accumulator(problem, bf16.precision, pool));
    if (rule && rule->promotion == Promotion::add && of.k > rule->promotion_interval) {
        MatmulRule without = *rule;
        without.promotion = Promotion::none;
        without.slices = 1;
        add("promotion absent", with_rule(problem, without, pool));
    }
    const bool is_narrow = problem.output.precision < fp32.precision;
    if (is_narrow && of.k >= 8 && !(rule && rounds_slices(*rule)))
        add(fmt::format("split-K 4, partial sums rounded to {}", format_name(problem.output)),
            with_rounded_slices(problem, 4, pool));
    for (const bool of_b : {false, true}) {
        if (of.blocks() < 2) continue;
        all.push_back({fmt::format("scales of {} off by one block", of_b ? "b" : "a"), "scale", Power::structure,
                       with_next_scales(problem, of_b, pool), false});
    }
    if ((of.a_format == fp32 || of.b_format == fp32) && problem.declaration.operands == "stored") {
        add("operands cut to tf32", with_operands(problem, tf32, Round::toward_zero, pool), false);
        add("operands rounded to tf32", with_operands(problem, tf32, Round::nearest_away, pool), false);
    }
    if (of.a_format.precision > bf16.precision || of.b_format.precision > bf16.precision)
        add("operands rounded to bf16", with_operands(problem, bf16, Round::nearest_even, pool), false);
    if (of.a_format == fp32 && of.b_format == fp32 && problem.declaration.operands == "stored")
        add("three products of bf16 parts (bf16x3)", in_three_products(problem, pool), false);
    return all;
}

int refused_accumulator(const Problem& problem, const Limits& limits, ThreadPool& pool) {
    const Limits part = first_rows(limits, simulated_rows(problem));
    Premise premise(problem, part);
    const auto is_refused = [&](int bits) {
        std::vector<double> outputs = with_accumulator(problem, bits, pool);
        for (double& y : outputs) y = stored(limits, y);
        return !judge(part, outputs, {.premise = &premise, .stops_at_first = true}).reasons.empty();
    };
    int refused = 0, accepted = fp32.precision;
    while (accepted - refused > 1) {
        const int bits = (refused + accepted) / 2;
        (is_refused(bits) ? refused : accepted) = bits;
    }
    return refused;
}

void add_other_b(Trial& trial, const Problem& problem) {
    const ProductOperands& of = problem.products->operands();
    std::int64_t batch = of.parts;
    while (batch < of.batches && of.first_row(batch) == of.first_row(batch + 1)) batch += of.parts;
    if (of.has_one_b || batch >= of.batches) return;
    const std::int64_t first = of.first_row(batch), rows = std::min<std::int64_t>(of.first_row(batch + 1) - first, 16);
    const double* b = of.b.data() + (batch - of.parts) * of.k * of.n;
    const std::vector<double> wrong =
        with_sums(problem, first, rows, trial.pool(), [&](std::int64_t row, std::vector<ProductSum>& out) {
            std::vector<double> sums(static_cast<std::size_t>(of.n));
            for (std::int64_t p = 0; p < of.k; ++p) {
                for (std::int64_t j = 0; j < of.n; ++j)
                    sums[static_cast<std::size_t>(j)] += of.a_at(row, p) * b[p * of.n + j];
            }
            set_sums(sums, out);
        });
    const OutputRange changes{first * of.n, (first + rows) * of.n};
    const LimitColumn<double>& right = trial.limits().exact;
    trial.add({.name = "a group with the b of the one before it",
               .kind = "structure",
               .results =
                   [&](const OutputRange& range, std::span<double> exact) {
                       for (std::size_t j = 0; j < exact.size(); ++j) {
                           const std::int64_t i = range.first + static_cast<std::int64_t>(j);
                           exact[j] = i >= changes.first && i < changes.last
                                          ? wrong[static_cast<std::size_t>(i - changes.first)]
                                          : right[static_cast<std::size_t>(i)];
                       }
                   },
               .changes = changes});
}

}  // namespace macheps::check
