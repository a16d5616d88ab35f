// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/trace.hpp"

#include "core/codec.hpp"
#include "emulation/machine/step.hpp"

#include <algorithm>
#include <cmath>

namespace macheps {

namespace {

bool has_steps(const Machine& machine) {
    switch (machine.sum.model) {
        case SumModel::pairwise:
        case SumModel::kahan:
        case SumModel::exact:
            return false;
        default:
            return !machine.has_scales();
    }
}

/// Number of products that one traced step adds. The two halves of through_fp16, and the chains of CPU units, which may
/// add the products in another order, are one step here.
int step_size(const Machine& machine) {
    switch (machine.sum.model) {
        case SumModel::fma_chain:
            return machine.sum.is_plain_chain() ? 1 : machine.k;
        case SumModel::through_fp16:
            return machine.k;
        default:
            return std::min(machine.sum.terms, machine.k);
    }
}

/// Sets the fields of `step` that describe how the model `truncated` cuts its products and its addend.
void add_cuts(TracedStep& step, const SumRule& rule, std::span<const Factor> a, std::span<const Factor> b,
              const Factor& c) {
    const auto is_finite = [](const Factor& x) { return x.kind == Unpacked::Kind::finite; };
    if (!std::all_of(a.begin(), a.end(), is_finite) || !std::all_of(b.begin(), b.end(), is_finite) || !is_finite(c))
        return;
    int largest = matrix_unit::addend_exponent(rule, c);
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool is_zero = a[i].is_zero() || b[i].is_zero();
        if (!is_zero || rule.zero_factor_counts) largest = std::max(largest, a[i].exponent + b[i].exponent);
    }
    const int unit = largest - rule.fraction_bits;
    const auto cut = [unit](double x) { return std::ldexp(std::trunc(std::ldexp(x, -unit)), unit); };
    step.largest_exponent = largest;
    step.unit_exponent = unit;
    step.addend_kept = cut(step.addend);
    double sum = *step.addend_kept;
    for (TracedTerm& term : step.terms) {
        term.kept = cut(term.product);
        sum += *term.kept;  // exact: multiples of 2^unit with far fewer than 53 bits
    }
    step.sum = sum;
}

}  // namespace

std::optional<std::vector<TracedStep>> trace_products(const Machine& machine, Format a_format, Format b_format,
                                                      std::span<const std::uint64_t> a,
                                                      std::span<const std::uint64_t> b, std::uint64_t c) {
    if (!has_steps(machine)) return std::nullopt;
    const SumRule& rule = machine.sum;
    const auto size = static_cast<std::size_t>(step_size(machine));
    const std::size_t count = std::max(a.size(), b.size());
    const auto factor_at = [](const Format& format, std::span<const std::uint64_t> codes, std::size_t i) {
        return factor_of_code(format, i < codes.size() ? codes[i] : 0);
    };
    std::vector<TracedStep> steps;
    for (std::size_t first = 0; first == 0 || first < count; first += size) {
        std::vector<Factor> x, y;
        TracedStep step;
        const Factor addend = factor_of_code(rule.addend, c);
        step.addend = addend.value();
        for (std::size_t i = first; i < first + size; ++i) {
            x.push_back(factor_at(a_format, a, i));
            y.push_back(factor_at(b_format, b, i));
            const double p = x.back().value(), q = y.back().value();
            step.terms.push_back({.a = p, .b = q, .product = p * q});
        }
        if (rule.model == SumModel::truncated) add_cuts(step, rule, x, y, addend);
        c = matrix_instruction(rule, static_cast<int>(size), x.data(), y.data(), c);
        step.code = c;
        step.result = decode64(machine.result, c);
        steps.push_back(std::move(step));
    }
    return steps;
}

}  // namespace macheps
