// SPDX-License-Identifier: Apache-2.0
#include "experiments/numerics/error_bound.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace macheps {

namespace {

double rounding_error(Delivery delivery) {
    switch (delivery) {
        case Delivery::fp32_toward_zero:
            return 0x1p-23;
        case Delivery::e8m13_toward_zero:
            return 0x1p-13;
        case Delivery::fp32_nearest_even:
            return fp32.unit_roundoff();
        case Delivery::fp16_nearest_even:
            return fp16.unit_roundoff();
        case Delivery::bf16_nearest_even:
            return bf16.unit_roundoff();
        default:
            return fp64.unit_roundoff();
    }
}

double parts(std::int64_t k, std::int64_t each) { return static_cast<double>((k + each - 1) / each); }
int log2_up(std::int64_t n) { return n <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(n - 1)); }

/// One chain of instructions over k terms.
LocalErrors chain_errors(const Machine& machine, std::int64_t k) {
    const SumRule& sum = machine.sum;
    const double u = rounding_error(sum.delivery), steps = parts(k, sum.terms), terms = sum.terms;
    const double cut = Format::power_of_two(-sum.fraction_bits);
    LocalErrors errors;
    switch (sum.model) {
        case SumModel::fma_chain:
            errors.add(static_cast<double>(k), u);
            break;
        case SumModel::pairwise:
            errors.add(1 + log2_up(k), u);
            break;
        case SumModel::kahan:
            errors.add(3, u);
            errors.add(1, 2 * static_cast<double>(k) * u * u);
            break;
        case SumModel::exact:
            errors.add(1, u);
            break;
        case SumModel::truncated:
            errors.add(static_cast<double>(k), cut);
            errors.add(steps, u);
            break;
        case SumModel::scaled_groups:
            errors.add(parts(k, 16), 4 * cut);
            errors.add(steps, u);
            break;
        case SumModel::through_fp16:
            errors.add(machine.k, cut);
            errors.add(2, u);
            errors.add(parts(k, machine.k), machine.result.unit_roundoff());
            break;
        case SumModel::exact_step:
            errors.add(steps, u);
            break;
        case SumModel::flushed_pairs:
            errors.add(1 + log2_up(sum.terms), u);
            errors.add(steps, u);
            break;
        case SumModel::floored:
        case SumModel::floored_even_odd:
            errors.add(terms + (sum.model == SumModel::floored ? 1 : 3), cut);
            errors.add(steps, u + 0x1p-31 + 0x1p-32);
            break;
    }
    return errors;
}

/// One slice: chains, promoted where the rule says so.
LocalErrors slice_errors(const MatmulRule& rule, std::int64_t k) {
    if (rule.promotion == Promotion::none) return chain_errors(*rule.machine, k);
    LocalErrors errors = chain_errors(*rule.machine, std::min<std::int64_t>(k, rule.promotion_interval));
    errors.add(parts(k, rule.promotion_interval), fp32.unit_roundoff());
    if (rule.promotion != Promotion::add) errors.add(1, fp32.unit_roundoff());
    return errors;
}

}  // namespace

ErrorBound error_bound(const MatmulRule& rule, std::int64_t k, const Format& output, int factors, double lambda) {
    if (k <= 0) return {};
    const double single = fp32.unit_roundoff(), out = output.unit_roundoff(), slices = rule.slices;
    LocalErrors errors;
    if (rule.slices <= 1) {
        errors = slice_errors(rule, k);
    } else {
        const std::int64_t granules = (k + rule.slice_granule - 1) / rule.slice_granule;
        const std::int64_t length = (granules + rule.slices - 1) / rule.slices * rule.slice_granule;
        errors = slice_errors(rule, std::min(length, k));
        errors.add(slices, single);
        if (rule.join == SliceJoin::rounded_workspace) errors.add(1, out);
        if (rule.join == SliceJoin::serial) errors.add(slices, out);
    }
    errors.add(factors, single);
    // Promoted, joined or scaled sums are fp32, whatever the machine gives.
    const bool is_single = rule.promotion != Promotion::none || rule.slices > 1 || factors > 0;
    if (output.precision < (is_single ? fp32 : rule.machine->result).precision) errors.add(1, out);
    return {errors.sum() / static_cast<double>(k), errors.sum(),
            std::min(errors.sum(), lambda * std::sqrt(errors.squares()))};
}

}  // namespace macheps
