// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/check.hpp"

#include "experiments/check/judge/grid.hpp"
#include "experiments/check/judge/stochastic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

bool is_within(const Metric& metric, double limit) {
    return metric.is_least ? metric.value >= limit : metric.value <= limit;
}

/// Returns the largest |error| / (atol + rtol |exact|). The ratio is infinite if an output or its exact value is not
/// finite, unless the two are equal or both are NaN.
double tolerance_ratio(const Limits& limits, NumberView got, const Options& options) {
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double y = limits.exact[i], allowed = options.atol.value_or(0) + options.rtol.value_or(0) * std::fabs(y);
        if (got[i] == y || (std::isnan(y) && std::isnan(got[i]))) continue;
        if (!std::isfinite(got[i]) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
        most = std::max(most, std::fabs(got[i] - y) / allowed);
    }
    return most;
}

/// Applies the user's limits to `out`. Before that, applies them to meaningless outputs such as zeros. Limits that
/// accept a meaningless output are too wide.
void try_user_limits(const Problem& problem, NumberView out, const Options& options, Verdict& verdict,
                     ThreadPool& pool) {
    const bool has_tolerance = options.rtol || options.atol;
    if (!has_tolerance && options.metric_limits.empty()) return;
    const std::string tolerance =
        fmt::format("rtol {:g}, atol {:g}", options.rtol.value_or(0), options.atol.value_or(0));
    for (const NullOutput& null : null_outputs(problem, *verdict.limits, pool)) {
        const std::vector<double> values = values_of(null, *verdict.limits);
        const double ratio = has_tolerance ? tolerance_ratio(*verdict.limits, values, options) : 2;
        if (ratio <= 1) {
            Reason reason{
                reason_code::wide_limit, "limit",
                fmt::format("the tolerance ({}) accepts a meaningless output ({}): it is too wide by a factor of "
                            "at least {:.3g}",
                            tolerance, null.name, 1 / ratio)};
            reason.ratio = ratio;
            verdict.reasons.push_back(std::move(reason));
        }
        for (const Metric& metric : metrics(*verdict.limits, values, pool)) {
            const auto limit = options.metric_limits.find(metric.name);
            if (limit == options.metric_limits.end() || !is_within(metric, limit->second)) continue;
            Reason reason{reason_code::wide_limit, "limit",
                          fmt::format("the limit {}={:g} accepts a meaningless output ({}), whose value is {:.6g}",
                                      metric.name, limit->second, null.name, metric.value)};
            verdict.reasons.push_back(std::move(reason));
        }
    }
    if (!verdict.reasons.empty()) {
        verdict.outcome = Outcome::refused;
        return;
    }
    if (has_tolerance) {
        const double ratio = tolerance_ratio(*verdict.limits, out, options);
        if (ratio > 1) {
            Reason reason{reason_code::tolerance, "limit",
                          fmt::format("an error is larger than the tolerance ({})", tolerance)};
            reason.ratio = ratio;
            verdict.reasons.push_back(std::move(reason));
        }
    }
    for (const Metric& metric : verdict.metrics) {
        const auto limit = options.metric_limits.find(metric.name);
        if (limit == options.metric_limits.end() || is_within(metric, limit->second)) continue;
        Reason reason{reason_code::metric, "limit",
                      fmt::format("{} is {:.6g}, beyond its limit {:g}", metric.name, metric.value, limit->second)};
        reason.got = metric.value;
        reason.bound = limit->second;
        verdict.reasons.push_back(std::move(reason));
    }
}

/// Recomputes the sum of an output as an exact integer if the error of the output is so close to its bound that the
/// error of the fp64 reference could change the verdict.
void escalate(const Problem& problem, NumberView out, Limits& limits, ThreadPool& pool) {
    if (problem.products == nullptr) return;
    const Defect none{};
    Listing listing{
        .declaration = problem.declaration, .inputs = problem.inputs, .defect = none, .columns = problem.columns};
    problem.declaration.operation->list(listing);
    Columns<Wide> values;
    std::vector<ProductSum> sums;
    for (std::int64_t i = 0; i < limits.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double off = std::fabs(out[at] - limits.exact[at]), limit = limits.certain[at];
        const double certificate =
            static_cast<double>(problem.products->operands().k) * 0x1p-52 * problem.products->magnitudes(i);
        if (!(std::fabs(off - limit) <= certificate)) continue;
        const std::int64_t row = i / limits.columns, column = i % limits.columns;
        sums = {problem.products->exact(row, column, pool)};
        reference(listing.nodes.list(),
                  {.row = row,
                   .columns = problem.columns,
                   .first = column,
                   .count = 1,
                   .inputs = &problem.inputs,
                   .products = &sums},
                  values);
        limits.replace(at, values.back()[0].high, values.back()[0].low);
        ++limits.escalated;
    }
}

/// Sums and maxima from which the metrics are computed.
struct Sums {
    double signal = 0, noise = 0, power = 0, product = 0, most = 0, ulps = 0;

    void add(const Sums& other) {
        signal += other.signal;
        noise += other.noise;
        power += other.power;
        product += other.product;
        most = std::max(most, other.most);
        ulps = std::max(ulps, other.ulps);
    }
};

/// Adds a failure if the declared machine guarantees fewer bits than required, whatever the kernel returned.
void judge_fitness(const Problem& problem, Verdict& verdict) {
    const std::optional<double>& need = problem.declaration.need_bits;
    if (!need || verdict.fitness.min_bits >= *need) return;
    Reason reason{
        reason_code::need_bits, "fitness",
        fmt::format("the declared machine guarantees only {:.3g} bits of the sum of |a b| here, but {:g} are needed",
                    verdict.fitness.min_bits, *need)};
    reason.index = verdict.fitness.worst;
    reason.bound = *need;
    reason.got = verdict.fitness.min_bits;
    verdict.reasons.push_back(std::move(reason));
}

/// Adds the failures that the screen found. They may concern outputs that are not in the sample.
void judge_screen(const Screen& screen, const Options& options, std::vector<Reason>& reasons) {
    const auto add = [&](const ReasonCode& code, std::string text, const Screen::Worst& worst) {
        if (worst.sums == 0) return;
        Reason reason{code, "screen", std::move(text)};
        reason.index = worst.index;
        reason.count = worst.sums;
        reason.got = worst.got;
        reason.want = worst.want;
        reason.bound = worst.bound;
        reason.ratio = worst.ratio;
        reasons.push_back(std::move(reason));
    };
    add(reason_code::special, "an output is NaN or infinite, although nothing in its sum can overflow", screen.special);
    add(reason_code::screen_certain,
        fmt::format("the error of a signed sum of {} outputs is larger than the sum of their bounds", Screen::width),
        screen.certain);
    if (options.certain_only) return;
    add(reason_code::screen_probable,
        fmt::format(
            "the error of a sum of {} outputs with random signs is larger than its probable bound, which a legal "
            "kernel exceeds in at most one of 1/delta checks",
            Screen::width),
        screen.probable);
}

}  // namespace

std::string_view to_string(Outcome outcome) {
    constexpr std::string_view names[] = {"pass", "fail", "weak", "refused", "declined", "input"};
    return names[static_cast<std::size_t>(outcome)];
}

std::shared_ptr<Limits> no_limits() { return std::make_shared<Limits>(); }

Exit exit_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::pass:
            return Exit::ok;
        case Outcome::fail:
        case Outcome::weak:
            return Exit::check_failed;
        case Outcome::bad_input:
            return Exit::bad_input;
        default:
            return Exit::usage;
    }
}

std::vector<const Mutant*> Verdict::blind(Power require) const {
    std::vector<const Mutant*> all;
    for (const Mutant& mutant : mutants) {
        if (!mutant.caught && mutant.required_by <= require) all.push_back(&mutant);
    }
    return all;
}

std::vector<Metric> metrics(const Limits& limits, NumberView got, ThreadPool& pool) {
    const HalfUlp half_ulp(limits.format);
    Sums s;
    in_parts(
        static_cast<std::int64_t>(got.size()), pool,
        [&](std::size_t first, std::size_t last) {
            Sums part;
            for (std::size_t i = first; i < last; ++i) {
                const double y = limits.exact[i], e = got[i] - y;
                if (!std::isfinite(y) || !std::isfinite(got[i])) continue;
                part.signal += y * y;
                part.noise += e * e;
                part.power += got[i] * got[i];
                part.product += y * got[i];
                part.most = std::max(part.most, std::fabs(e));
                part.ulps = std::max(part.ulps, std::fabs(e) / (2 * half_ulp(y)));
            }
            return part;
        },
        [&](const Sums& part) { s.add(part); });
    const auto& [signal, noise, power, product, most, ulps] = s;
    const double infinite = std::numeric_limits<double>::infinity();
    return {{"max", most},
            {"ulp", ulps},
            {"fro", noise == 0 ? 0 : std::sqrt(noise / signal)},
            {"sqnr", noise == 0 ? infinite : 10 * math::log(signal / noise) / math::log(10.0), true},
            {"cosine",
             noise == 0            ? 1
             : signal * power == 0 ? 0
                                   : product / std::sqrt(signal * power),
             true},
            {"calc_diff", noise == 0 ? 0 : noise / (signal + power)}};
}

namespace {

Verdict judge_posed(const Problem& problem, NumberView out, const Options& options, ThreadPool& pool) {
    Verdict verdict;
    std::optional<MachineOutputs> claimed;
    if (problem.declaration.bits) {
        claimed = machine_outputs(problem, pool);
        claimed->agree(problem.output, out);
    }
    *verdict.limits = limits_of(problem, options.delta, pool);
    Limits& limits = *verdict.limits;
    verdict.metrics = metrics(limits, out, pool);
    if (limits.declined >= 0) {
        verdict.outcome = Outcome::declined;
        Reason reason{
            reason_code::declined, "reference",
            "no bound exists for this output: an intermediate result may overflow fp32 or lose all its digits, "
            "or the reference is not accurate enough"};
        reason.index = limits.declined;
        reason.got = out[static_cast<std::size_t>(limits.declined)];
        reason.want = limits.exact[static_cast<std::size_t>(limits.declined)];
        reason.bound = limits.certain[static_cast<std::size_t>(limits.declined)];
        verdict.reasons.push_back(std::move(reason));
        return verdict;
    }
    try_user_limits(problem, out, options, verdict, pool);
    if (verdict.outcome == Outcome::refused) return verdict;
    escalate(problem, out, limits, pool);
    if (problem.changed_canary) {
        verdict.reasons.push_back(
            {reason_code::written_outside, "T0",
             fmt::format("the kernel wrote to element {} after the end of the output", *problem.changed_canary)});
    }
    if (problem.changed_padding) {
        verdict.reasons.push_back(
            {reason_code::written_outside, "T0",
             fmt::format("the kernel wrote to element {} of the output, which lies beyond the rows of its group",
                         *problem.changed_padding)});
    }
    Premise premise(problem, limits);
    verdict.judgement = judge(limits, out, {.premise = &premise, .certain_only = options.certain_only, .pool = &pool});
    verdict.reasons.insert(verdict.reasons.end(), verdict.judgement.reasons.begin(), verdict.judgement.reasons.end());
    if (claimed) {
        verdict.bits = compare_bits(problem.output, out, claimed->outputs);
        if (auto reason = bits_reason(problem, *verdict.bits, out, claimed->outputs))
            verdict.reasons.push_back(std::move(*reason));
    }
    InputPower power = power_of(problem, limits, claimed ? &*claimed : nullptr, pool, &premise);
    const InputPower* const alone[] = {&power};
    const Weakness weakness = weakness_of(alone, options.require);
    verdict.fitness = power.fitness;
    judge_fitness(problem, verdict);
    if (limits.rounding == Round::stochastic) {
        if (auto reason = judge_frequencies(limits, out, options.delta)) verdict.reasons.push_back(std::move(*reason));
    }
    for (const Finding& finding : problem.findings) {
        Reason reason{reason_code::written_beside, "T1",
                      fmt::format("{} differs from what its rule computes from x", finding.array)};
        reason.index = finding.index;
        reason.count = finding.count;
        reason.got = finding.got;
        reason.want = finding.want;
        verdict.reasons.push_back(std::move(reason));
    }
    verdict.mutants = std::move(power.mutants);
    verdict.sharpness = sharpness_of(problem, limits, verdict.judgement, pool, &premise);
    verdict.dependence = premise.dependence();
    set_thresholds(verdict.sharpness, verdict.mutants);
    if (!verdict.reasons.empty()) {
        verdict.outcome = Outcome::fail;
        return verdict;
    }
    if (weakness.is_unguaranteed) {
        verdict.outcome = Outcome::weak;
        Reason reason{
            reason_code::no_guarantee, "power",
            fmt::format("at {:.3g} % of the outputs the bound is larger than the output, so the declared machine "
                        "guarantees nothing there",
                        100 * verdict.fitness.lost_share)};
        reason.ratio = verdict.fitness.lost_share;
        verdict.reasons.push_back(std::move(reason));
    }
    for (const Mutant* mutant : verdict.blind(options.require)) {
        if (!weakness.has(mutant->name)) continue;
        verdict.outcome = Outcome::weak;
        Reason reason{
            reason_code::blind, "power",
            fmt::format("this check could not have caught a wrong kernel: {} ({}; its largest effect is {:.2g} times "
                        "the bound)",
                        mutant->name, mutant->kind, mutant->largest)};
        reason.ratio = mutant->largest;
        reason.mutant = mutant->name;
        verdict.reasons.push_back(std::move(reason));
    }
    return verdict;
}

double bounds_of_screen(const Screen& screen, const Limits& limits) {
    std::vector<double> bounds;
    for (const double bound : limits.certain) {
        if (std::isfinite(bound)) bounds.push_back(bound);
    }
    if (bounds.empty()) return std::numeric_limits<double>::infinity();
    const auto middle = bounds.begin() + static_cast<std::ptrdiff_t>(bounds.size() / 2);
    std::nth_element(bounds.begin(), middle, bounds.end());
    // Legal errors in the same sum may hide an error of up to one limit. An error of twice the limit is always noticed.
    return 2 * screen.median_limit / *middle;
}

}  // namespace

Verdict check(const Problem& problem, NumberView out, const Options& options, ThreadPool& pool) {
    Verdict verdict = judge_posed(problem, out, options, pool);
    for (Reason& reason : verdict.reasons) reason.index = whole_index(*verdict.limits, reason.index);
    if (verdict.bits) verdict.bits->first = whole_index(*verdict.limits, verdict.bits->first);
    verdict.screen = problem.screen;
    verdict.unscreened = problem.unscreened;
    if (!verdict.screen || verdict.outcome == Outcome::refused || verdict.outcome == Outcome::declined) return verdict;
    verdict.screen_bounds = bounds_of_screen(*verdict.screen, *verdict.limits);
    std::vector<Reason> seen;
    judge_screen(*verdict.screen, options, seen);
    if (seen.empty()) return verdict;
    // A failed check does not report weaknesses.
    if (verdict.outcome != Outcome::fail) verdict.reasons.clear();
    verdict.outcome = Outcome::fail;
    verdict.reasons.insert(verdict.reasons.end(), seen.begin(), seen.end());
    return verdict;
}

}  // namespace macheps::check
