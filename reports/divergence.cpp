// SPDX-License-Identifier: Apache-2.0
#include "reports/divergence.hpp"

#include "core/float_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace macheps {

namespace {

using Rules = DivergenceRules;

/// t from the normal quantile z.
double cornish_fisher(double z, std::int64_t df) {
    const double n = double(df), z2 = z * z;
    const double first = z * (z2 + 1) / 4, second = z * ((5 * z2 + 16) * z2 + 3) / 96,
                 third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
    return z + (first + (second + third / n) / n) / n;
}

double t_quantile(const std::array<double, 30>& table, double z, std::int64_t df) {
    return df <= 30 ? table[std::size_t(std::max<std::int64_t>(df, 1) - 1)] : cornish_fisher(z, df);
}

/// Steps that two runs share, in order.
struct Pair {
    const StepRow* step;
    double baseline_loss;
};

std::vector<Pair> pair_up(const RunLog& run, const RunLog* baseline) {
    std::vector<Pair> pairs;
    std::size_t at = 0;
    for (const StepRow& step : run.steps) {
        if (!baseline) {
            if (step.baseline_loss) pairs.push_back({&step, *step.baseline_loss});
            continue;
        }
        while (at < baseline->steps.size() && baseline->steps[at].step < step.step) ++at;
        if (at < baseline->steps.size() && baseline->steps[at].step == step.step) {
            pairs.push_back({&step, baseline->steps[at].loss});
        }
    }
    return pairs;
}

std::int64_t window_of(std::size_t steps) {
    return std::clamp<std::int64_t>(std::int64_t(steps) / 4, 1, Rules::longest_window);
}

/// A loss that the scaler threw away with its step tells nothing; any other non-finite loss does.
bool counts(const StepRow& step) { return !step.skipped || std::isfinite(step.loss); }

struct WindowMeans {
    std::int64_t window = 0;
    double loss = NAN;
};

WindowMeans tail_loss(const RunLog& run) {
    WindowMeans means{.window = window_of(run.steps.size())};
    double sum = 0;
    std::int64_t n = 0;
    for (std::size_t i = run.steps.size() - std::min(run.steps.size(), std::size_t(means.window)); i < run.steps.size();
         ++i) {
        if (counts(run.steps[i])) sum += run.steps[i].loss, ++n;
    }
    if (n) means.loss = sum / double(n);
    return means;
}

struct PairMeans {
    std::int64_t window = 0;
    double gap = NAN, baseline_loss = NAN;
};

PairMeans tail_gap(const std::vector<Pair>& pairs) {
    PairMeans means{.window = window_of(pairs.size())};
    double gap = 0, baseline = 0;
    std::int64_t n = 0;
    for (std::size_t i = pairs.size() - std::min(pairs.size(), std::size_t(means.window)); i < pairs.size(); ++i) {
        if (!counts(*pairs[i].step)) continue;
        gap += double{pairs[i].step->loss} - pairs[i].baseline_loss;
        baseline += pairs[i].baseline_loss;
        ++n;
    }
    if (n) means.gap = gap / double(n), means.baseline_loss = baseline / double(n);
    return means;
}

bool run_failed(const RunLog& run) {
    if (run.row.status.starts_with("diverged") || run.row.status.starts_with("failed")) return true;
    FailureWatch watch;
    for (const StepRow& step : run.steps) watch.add(step.loss, step.skipped);
    if (watch.failed()) return true;
    if (std::int64_t(run.steps.size()) < Rules::failure_min_steps) return false;
    const double tail = tail_loss(run).loss;
    return !std::isfinite(tail) || tail > run.steps.front().loss;
}

std::int64_t all_bytes(const RunRow& row) {
    return row.bytes_params + row.bytes_grads + row.bytes_master + row.bytes_optimizer + row.bytes_activations;
}

std::string_view verdict_of(const PolicySummary& policy, bool failed, const PairedMean& gap, double baseline_loss) {
    if (failed) return "diverged";
    if (policy.seed_gaps.empty()) return "no_baseline";
    if (policy.seed_gaps.size() == 1) return "one_seed";
    const double margin = Rules::equivalence_margin * baseline_loss;
    if (gap.mean - *gap.half_width_90 > -margin && gap.mean + *gap.half_width_90 < margin) return "equivalent";
    return gap.mean - *gap.half_width_95 > 0 ? "worse" : "undecided";
}

PolicySummary summarise_policy(const Log& log, const std::string& name) {
    PolicySummary policy;
    SummaryRow& row = policy.row;
    row.policy = name;
    double loss = 0, baseline_loss = 0, lost = 0, efficiency = 0, seconds = 0, baseline_seconds = 0;
    std::int64_t steps = 0, skipped = 0, kept = 0, efficient = 0, memory = 0, baseline_memory = 0;
    std::uint64_t underflow = 0, count = 0;
    bool failed = false, is_baseline = true;
    for (const RunLog& run : log.runs) {
        if (run.policy != name) continue;
        ++row.seeds;
        is_baseline &= run.row.policy == baseline_policy;
        const WindowMeans tail = tail_loss(run);
        loss += tail.loss;
        const auto used = [&](std::int64_t window) {
            policy.window = policy.longest_window == 0 ? window : std::min(policy.window, window);
            policy.longest_window = std::max(policy.longest_window, window);
        };
        used(tail.window);
        failed |= run_failed(run);

        const RunLog* baseline = run.baseline ? &log.runs[*run.baseline] : nullptr;
        if (const std::vector<Pair> pairs = pair_up(run, baseline); baseline != &run && !pairs.empty()) {
            const PairMeans gap = tail_gap(pairs);
            policy.seed_gaps.push_back(gap.gap);
            baseline_loss += gap.baseline_loss;
            used(gap.window);
            DivergenceWatch watch;
            for (const Pair& pair : pairs) {
                watch.add(pair.step->step, pair.step->loss, pair.baseline_loss, pair.step->skipped);
            }
            if (watch.step() && (!row.diverged_step || *watch.step() < *row.diverged_step))
                row.diverged_step = watch.step();
        }
        if (baseline && run.row.seconds > 0 && baseline->row.seconds > 0 && run.row.steps > 0 &&
            baseline->row.steps > 0) {
            seconds += run.row.seconds / double(run.row.steps);
            baseline_seconds += baseline->row.seconds / double(baseline->row.steps);
        }
        if (baseline && all_bytes(baseline->row) > 0 && all_bytes(run.row) > 0) {
            memory += all_bytes(run.row);
            baseline_memory += all_bytes(baseline->row);
        }
        for (const StepRow& step : run.steps) {
            ++steps;
            skipped += step.skipped;
            if (!step.skipped) lost += double(step.lost_updates), ++kept;
            if (step.update_eff) efficiency += *step.update_eff, ++efficient;
        }
        const SiteFigures sites = run.site_figures ? *run.site_figures : site_figures(run.sites);
        underflow += sites.underflow;
        count += sites.count;
        if (sites.first_step && (!policy.first_site_step || *sites.first_step < *policy.first_site_step)) {
            row.first_site = sites.first;
            policy.first_site_why = sites.first_why;
            policy.first_site_step = sites.first_step;
        }
    }
    row.loss = loss / double(row.seeds);
    const PairedMean gap = paired_mean(policy.seed_gaps);
    if (!policy.seed_gaps.empty()) {
        baseline_loss /= double(policy.seed_gaps.size());
        row.gap_mean = gap.mean;
        policy.relative_gap = gap.mean / baseline_loss;
        if (gap.half_width_95) {
            row.gap_ci_low = gap.mean - *gap.half_width_95;
            row.gap_ci_high = gap.mean + *gap.half_width_95;
        }
    }
    row.verdict = is_baseline ? "baseline" : verdict_of(policy, failed, gap, baseline_loss);
    if (steps) row.skipped_rate = double(skipped) / double(steps);
    if (count) row.underflow_rate = double(underflow) / double(count);
    if (baseline_seconds > 0) row.slowdown = seconds / baseline_seconds;
    if (baseline_memory) row.memory_ratio = double(memory) / double(baseline_memory);
    if (kept) policy.lost_updates_per_step = lost / double(kept);
    if (efficient) policy.update_eff = efficiency / double(efficient);
    return policy;
}

}  // namespace

double t_quantile_95(std::int64_t df) {
    static constexpr std::array<double, 30> table{
        6.313752, 2.919986, 2.353363, 2.131847, 2.015048, 1.943180, 1.894579, 1.859548, 1.833113, 1.812461,
        1.795885, 1.782288, 1.770933, 1.761310, 1.753050, 1.745884, 1.739607, 1.734064, 1.729133, 1.724718,
        1.720743, 1.717144, 1.713872, 1.710882, 1.708141, 1.705618, 1.703288, 1.701131, 1.699127, 1.697261};
    return t_quantile(table, 1.6448536269514722, df);
}

double t_quantile_975(std::int64_t df) {
    static constexpr std::array<double, 30> table{
        12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
        2.200985,  2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
        2.079614,  2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272};
    return t_quantile(table, 1.959963984540054, df);
}

PairedMean paired_mean(std::span<const double> gaps) {
    PairedMean result;
    if (gaps.empty()) return result;
    const double n = double(gaps.size());
    double sum = 0;
    for (const double gap : gaps) sum += gap;
    result.mean = sum / n;
    if (gaps.size() < 2) return result;
    double squares = 0;
    for (const double gap : gaps) squares += (gap - result.mean) * (gap - result.mean);
    const double standard_error = std::sqrt(squares / (n - 1) / n);
    const std::int64_t df = std::int64_t(gaps.size()) - 1;
    result.half_width_95 = t_quantile_975(df) * standard_error;
    result.half_width_90 = t_quantile_95(df) * standard_error;
    return result;
}

void DivergenceWatch::add(std::int64_t step, double loss, double baseline_loss, bool skipped) {
    if (found_) return;
    const double gap = loss - baseline_loss;
    if (!std::isfinite(gap)) {
        if (!skipped && std::isfinite(baseline_loss)) found_ = first_ && in_a_row_ ? *first_ : step;
        return;
    }
    ema_ = ema_ ? Rules::ema_decay * *ema_ + (1 - Rules::ema_decay) * gap : gap;
    if (std::abs(*ema_) > Rules::divergence_threshold * baseline_loss) {
        if (in_a_row_++ == 0) first_ = step;
        if (in_a_row_ == Rules::consecutive_steps) found_ = first_;
    } else {
        in_a_row_ = 0;
    }
}

void FailureWatch::add(double loss, bool skipped) {
    if (!std::isfinite(loss)) {
        failed_ |= !skipped;
        return;
    }
    ema_ = ema_ ? Rules::ema_decay * *ema_ + (1 - Rules::ema_decay) * loss : loss;
    least_ = least_ ? std::min(*least_, *ema_) : *ema_;
    in_a_row_ = *ema_ > *least_ + Rules::failure_rise ? in_a_row_ + 1 : 0;
    failed_ |= in_a_row_ >= Rules::failure_steps;
}

Summary summarise(const Log& log) {
    const DefaultFloatModes modes;
    Summary summary{.policies = {}, .notes = log.notes};
    for (const RunLog& run : log.runs) {
        if (run.row.status.starts_with("failed")) {
            summary.notes.push_back(fmt::format("run {} {}", run.row.run, run.row.status));
        }
    }
    for (const std::string& name : log.policies()) {
        PolicySummary policy = summarise_policy(log, name);
        const bool unpaired =
            policy.row.policy != baseline_policy && std::int64_t(policy.seed_gaps.size()) < policy.row.seeds;
        if (unpaired) {
            summary.notes.push_back(fmt::format("{}: {} of {} seeds have an fp32 run to compare with", name,
                                                policy.seed_gaps.size(), policy.row.seeds));
        }
        summary.policies.push_back(std::move(policy));
    }
    return summary;
}

Summary summarise(const std::filesystem::path& folder) { return summarise(read_runs(std::span(&folder, 1))); }

}  // namespace macheps
