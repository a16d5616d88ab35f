// SPDX-License-Identifier: Apache-2.0
#include "experiments/numerics/error_bound.hpp"

#include "emulation/machine/models.hpp"
#include "emulation/machine/step.hpp"

#include <algorithm>
#include <cmath>

namespace macheps {

namespace {

/// What one delivery of a sum can lose, relative to the result.
double rounding_error(Delivery delivery) {
    const double u = matrix_unit::delivered_format(delivery).unit_roundoff();
    return matrix_unit::rounds_to_nearest(delivery) ? u : 2 * u;
}

double parts(std::int64_t k, std::int64_t each) { return static_cast<double>((k + each - 1) / each); }

/// One chain of instructions over k terms.
LocalErrors chain_errors(const Machine& machine, std::int64_t k) {
    LocalErrors errors;
    for (const ModelError& each : row_of(machine.sum.model).errors(machine, k, rounding_error(machine.sum.delivery))) {
        errors.add(each.count, each.size);
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
