// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/error_bound.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::study {

namespace {

double parts(std::int64_t k, std::int64_t each) { return static_cast<double>((k + each - 1) / each); }

/// Returns half of the smallest subnormal number. This is the largest error if a number below the normal range is
/// rounded to nearest.
double half_min(const Format& format) { return Format::power_of_two(format.emin() - format.precision); }

/// Adds the errors of a sum whose k terms the rule splits into blocks. These are the errors of the longest chain, and
/// those of the additions that join the chains: one for each block and each lane after the first, and one for a bias
/// that is added first.
void add_blocks(ErrorBound& bound, const MatmulRule& rule, std::int64_t k) {
    std::int64_t longest = 0, blocks = 0;
    for (std::int64_t p = 0; p < k; ++blocks) {
        const std::int64_t length = rule.blocks.length(k, k - p);
        longest = std::max(longest, length / rule.lanes + length % rule.lanes);
        p += length;
    }
    const auto chains = static_cast<double>(blocks * rule.lanes);
    bound.add_machine(row_of(rule.machine->sum.model).errors(*rule.machine, longest), chains);
    const double joins = static_cast<double>(blocks - 1 + rule.lanes - 1) + (rule.bias_first ? 1 : 0);
    bound.add({joins, fp32.unit_roundoff()});
}

/// Adds the errors of one slice of k terms: the errors of its chains and, if the rule promotes partial sums, of the
/// promotion. Errors caused by underflow are counted for all `slices` slices.
void add_slice(ErrorBound& bound, const MatmulRule& rule, std::int64_t k, double slices) {
    if (rule.has_blocks()) return add_blocks(bound, rule, k);
    const Machine& machine = *rule.machine;
    const auto errors_of = row_of(machine.sum.model).errors;
    if (rule.promotion == Promotion::none) {
        bound.add_machine(errors_of(machine, k), slices);
        return;
    }
    const double blocks = parts(k, rule.promotion_interval), single = fp32.unit_roundoff();
    bound.add_machine(errors_of(machine, std::min<std::int64_t>(k, rule.promotion_interval)), slices * blocks);
    if (rule.promotion != Promotion::add) {
        bound.add({1, single});
        bound.add_underflow(2 * slices * blocks * half_min(fp32));
    }
    bound.add({blocks, single});
}

/// Adds the errors of adding up the sums of the slices.
void add_join(ErrorBound& bound, const MatmulRule& rule, const Format& output) {
    const double slices = rule.slices, single = fp32.unit_roundoff(), out = output.unit_roundoff();
    bound.add({slices, single});
    switch (rule.join) {
        case SliceJoin::rounded_workspace:
            bound.add({1, out});
            bound.add_unscaled_underflow(slices * half_min(output));
            break;
        case SliceJoin::serial:
            bound.add({slices, out});
            bound.add_underflow(slices * (half_min(fp32) + half_min(output)));
            break;
        case SliceJoin::stream_k:  // both addends and their sum are flushed
            bound.add_unscaled_underflow(3 * slices * Format::power_of_two(fp32.emin()));
            break;
        default:
            break;
    }
}

/// Adds the errors that occur when a sum in format `before` becomes an output: those of `factors` multiplications in
/// fp32, and that of a rounding to the output format.
void add_output(ErrorBound& bound, const Format& before, const Format& output, int factors) {
    if (factors > 0) {
        bound.add({static_cast<double>(factors), fp32.unit_roundoff()});
        bound.add_underflow(factors * half_min(fp32));
    }
    const Format& last = factors > 0 ? fp32 : before;
    if (output.precision < last.precision || output.emin() > last.emin()) {
        bound.add({1, output.unit_roundoff()});
        bound.add_underflow(half_min(output));
    }
}

}  // namespace

void LocalErrors::add(const ModelError& error) {
    // Unbiased errors have mean zero, but in the worst case each enlarges the sum, and with it the next error.
    const double sum = error.kind == ErrorKind::unbiased
                           ? std::min(std::expm1(error.count * std::log1p(error.size)), 0x1p500)
                           : error.count * error.size;
    const bool is_cut = error.kind == ErrorKind::cut_sum || error.kind == ErrorKind::cut_term;
    const double width = is_cut ? error.size / 2 : error.size;
    sum_ += sum;
    mean_ += is_cut ? sum / 2 : error.kind == ErrorKind::nearest ? sum * std::min(1.0, sum / 2) : 0;
    squares_ += error.count * width * width;
}

void ErrorBound::add(const ModelError& error) {
    (error.kind == ErrorKind::cut_term ? terms_ : sums_).add({error.count, error.size * (1 + relative()), error.kind});
}

void ErrorBound::add_machine(const ModelErrors& errors, double chains) {
    for (const ModelError& each : errors.relative) (each.kind == ErrorKind::cut_term ? terms_ : sums_).add(each);
    machine_underflow_ += chains * errors.underflow;
    flushes_operands_ = flushes_operands_ || errors.flushes_operands;
}

double ErrorBound::lost(const OutputSize& size) const {
    const double lost = machine_underflow_ * size.factor + underflow_ + (flushes_operands_ ? size.flushed : 0);
    return (1 + relative()) * lost;
}

double ErrorBound::certain(const OutputSize& size) const {
    const double bound = terms_.sum() * size.lifted + sums_.sum() * size.magnitudes + lost(size);
    return bound * (1 + 0x1p-40);  // covers the roundings of this computation and of the computed error
}

double ErrorBound::probable(const OutputSize& size, double lambda) const {
    const double mean = terms_.mean() * size.lifted + sums_.mean() * size.magnitudes;
    const double squares =
        terms_.squares() * size.lifted * size.lifted + sums_.squares() * size.magnitudes * size.magnitudes;
    return std::min(certain(size), mean + lambda * std::sqrt(squares) + lost(size));
}

ErrorBound error_bound(const MatmulRule& rule, std::int64_t k, const Format& output, int factors) {
    ErrorBound bound;
    if (k <= 0) return bound;
    if (rule.slices <= 1) {
        add_slice(bound, rule, k, 1);
    } else {
        const std::int64_t granules = (k + rule.slice_granule - 1) / rule.slice_granule;
        const std::int64_t length = (granules + rule.slices - 1) / rule.slices * rule.slice_granule;
        add_slice(bound, rule, std::min(length, k), rule.slices);
        add_join(bound, rule, output);
    }
    // Sums that are promoted, joined or scaled are fp32, even if the machine has another result format.
    const bool is_single = rule.promotion != Promotion::none || rule.slices > 1 || rule.has_blocks();
    add_output(bound, is_single ? fp32 : rule.machine->result, output, factors);
    return bound;
}

ErrorBound error_bound(const SumOrder& order, std::int64_t k, const Format& output, int factors) {
    ErrorBound bound;
    if (k <= 0) return bound;
    bound.add_machine(order.errors(k), 1);
    add_output(bound, order.format, output, factors);
    return bound;
}

}  // namespace macheps::study
