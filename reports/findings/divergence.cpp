// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/divergence.hpp"

#include "core/host/float_environment.hpp"
#include "core/text/shown.hpp"
#include "reports/findings/policy_fold.hpp"
#include "reports/findings/spikes.hpp"
#include "reports/logs/manifest_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::reports {

namespace {

using Rules = DivergenceRules;

/// A step of a run, with the loss of the baseline at the same step.
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

/// Returns whether the means include the loss of a step. A non-finite loss is left out only if its step was skipped.
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

bool is_unfinished(const RunLog& run) { return run.row.status == "unfinished"; }

/// Returns why a run failed, or nothing if it did not fail.
std::optional<FailedRuns> failure_of(const RunLog& run) {
    if (run.row.status.starts_with("failed")) return FailedRuns{.reason = &failures::error};
    FailureWatch watch;
    for (const StepRow& step : run.steps) {
        watch.add(step.loss, step.skipped);
        if (watch.failed()) return FailedRuns{.reason = watch.reason(), .step = step.step};
    }
    if (run.row.status.starts_with("diverged"))
        return FailedRuns{.reason = &failures::loss_not_finite, .step = run.row.diverged_step};
    if (is_unfinished(run)) return std::nullopt;  // the run may continue after its last step
    const double tail = tail_loss(run).loss;
    if (!run.steps.empty() && !std::isfinite(tail)) return FailedRuns{.reason = &failures::end_not_finite};
    if (std::int64_t(run.steps.size()) < Rules::failure_min_steps) return std::nullopt;
    // The mean of a window has at most 50 terms, so its rounding error is less than 64 units in the last place.
    const double first = run.steps.front().loss,
                 rounding = 64 * std::numeric_limits<double>::epsilon() * std::abs(first);
    if (tail > first + rounding) return FailedRuns{.reason = &failures::ended_above_start};
    return std::nullopt;
}

std::int64_t static_bytes(const RunRow& row) {
    return row.bytes_params + row.bytes_grads + row.bytes_master + row.bytes_optimizer;
}
std::int64_t all_bytes(const RunRow& row) { return static_bytes(row) + row.bytes_activations; }

/// Computes a mean, which is absent if no value was added.
class Mean {
  public:
    void add(double value) { sum_ += value, ++count_; }
    void add(const std::optional<double>& value) {
        if (value) add(*value);
    }
    std::optional<double> value() const { return count_ ? std::optional(sum_ / double(count_)) : std::nullopt; }

  private:
    double sum_ = 0;
    std::int64_t count_ = 0;
};

/// Returns the spike score of a quantity over the steps of a run. Steps in which the quantity is not finite are left
/// out.
std::optional<double> spikes_of(const RunLog& run, double (*number)(const StepRow&)) {
    std::vector<double> values;
    for (const StepRow& step : run.steps) {
        if (const double value = number(step); std::isfinite(value)) values.push_back(value);
    }
    return spike_score(values);
}

/// Returns the GPU whose matrix units the machines name, or an empty text if they name none or several.
std::string gpu_of_machines(std::span<const std::string> machines) {
    std::string gpu;
    for (const std::string& machine : machines) {
        const VendorGpu* found = gpu_of_machine(machine);
        if (found == nullptr || found->name == gpu) continue;
        if (!gpu.empty()) return {};
        gpu = found->name;
    }
    return gpu;
}

/// Returns the GPU whose matrix units the machines of all policies name, or an empty text if they name none or several.
std::string gpu_of_manifests(std::span<const ManifestFacts> manifests) {
    std::vector<std::string> machines;
    for (const ManifestFacts& facts : manifests) {
        for (const auto& [policy, list] : facts.machines) machines.insert(machines.end(), list.begin(), list.end());
    }
    return gpu_of_machines(machines);
}

/// The implementation of PolicyFold.
class RunsOfPolicy {
  public:
    RunsOfPolicy(std::string name, const SummaryOptions& options) : options_(options), gpu_(options.gpu) {
        policy_.row.policy = std::move(name);
    }

    /// Adds a run. `baseline` may be null, and may be the run itself.
    void add(const RunLog& run, const RunLog* baseline, const ManifestFacts& manifest) {
        SummaryRow& row = policy_.row;
        ++row.seeds;
        is_baseline_ &= run.row.policy == baseline_policy;
        const auto steps = std::int64_t(run.steps.size());
        row.steps = row.steps ? std::min(*row.steps, steps) : steps;
        policy_.model = row.seeds == 1 || policy_.model == manifest.model ? manifest.model : "";
        const bool has_this_weight = row.seeds == 1 || policy_.token_weight == manifest.token_weight;
        policy_.token_weight = has_this_weight ? manifest.token_weight : std::nullopt;
        if (row.seeds == 1) row.stress = run.row.stress;
        if (const auto beside = manifest.beside_precision.find(run.row.policy);
            beside != manifest.beside_precision.end())
            policy_.beside_precision = beside->second;
        if (const auto said = manifest.not_emulated.find(run.row.policy); said != manifest.not_emulated.end())
            policy_.not_emulated = said->second;
        const WindowMeans tail = tail_loss(run);
        loss_ += tail.loss;
        policy_.seed_losses.emplace_back(run.row.seed, tail.loss);
        used(tail.window);
        const std::optional<FailedRuns> failure = failure_of(run);
        if (failure) ++failed_, add_failed_runs(failures_, *failure);
        if (baseline != nullptr && baseline != &run && failure && failure_of(*baseline)) has_failed_baseline_ = true;
        add_pair(run, baseline);
        add_bytes(run.row, baseline == nullptr ? nullptr : &baseline->row, manifest);
        add_steps(run);
        add_sites(run);
    }

    PolicySummary summary() {
        SummaryRow& row = policy_.row;
        row.loss = loss_ / double(row.seeds);
        row.failed_seeds = failed_;
        if (!failures_.empty()) row.failures = failures_text(failures_);
        add_gap();
        if (steps_) row.skipped_rate = double(skipped_) / double(steps_);
        if (count_) row.underflow_rate = double(underflow_) / double(count_);
        if (gradients_) policy_.gradient_underflow_rate = double(gradients_underflow_) / double(gradients_);
        if (baseline_bytes_) row.memory_ratio = double(bytes_) / double(baseline_bytes_);
        row.static_bytes = static_.value(), row.activation_bytes = activations_.value();
        row.relative_peak = peak_.value();
        if (row.relative_peak) row.peak_gpu = gpu_;
        if (sampled_steps_ > 0) row.sampled_steps = sampled_steps_;
        if (!ranges_.empty()) row.forward_ranges = ranges_text(ranges_);
        row.loss_spikes = loss_spikes_.value(), row.grad_norm_spikes = norm_spikes_.value();
        row.update_stagnation = stagnation_.value(), row.update_eff = policy_.update_eff = efficiency_.value();
        row.grad_cosine = cosine_.value(), row.grad_proj = proj_.value();
        policy_.lost_updates_per_step = lost_.value().value_or(0);
        return std::move(policy_);
    }

  private:
    void used(std::int64_t window) {
        policy_.window = policy_.longest_window == 0 ? window : std::min(policy_.window, window);
        policy_.longest_window = std::max(policy_.longest_window, window);
    }

    void add_pair(const RunLog& run, const RunLog* baseline) {
        const std::vector<Pair> pairs = pair_up(run, baseline);
        if (baseline == &run || pairs.empty()) return;
        const PairMeans gap = tail_gap(pairs);
        policy_.seed_gaps.push_back(gap.gap);
        baseline_loss_ += gap.baseline_loss;
        learned_ += pairs.front().baseline_loss - gap.baseline_loss;
        used(gap.window);
        DivergenceWatch watch;
        for (const Pair& pair : pairs) {
            watch.add(pair.step->step, pair.step->loss, pair.baseline_loss, pair.step->skipped);
            is_same_ = is_same_ && pair.step->loss == pair.baseline_loss;
        }
        std::optional<std::int64_t>& first = policy_.row.diverged_step;
        if (watch.step() && (!first || *watch.step() < *first)) first = watch.step();
    }

    void add_bytes(const RunRow& run, const RunRow* baseline, const ManifestFacts& manifest) {
        if (baseline != nullptr && all_bytes(*baseline) > 0 && all_bytes(run) > 0) {
            bytes_ += all_bytes(run);
            baseline_bytes_ += all_bytes(*baseline);
        }
        const double parameters = double(run.parameters ? *run.parameters : manifest.parameters.value_or(0));
        if (parameters > 0 && static_bytes(run) > 0) {
            static_.add(double(static_bytes(run)) / parameters);
            activations_.add(double(run.bytes_activations) / parameters);
        }
        if (gpu_.empty()) {
            const auto machines = manifest.machines.find(run.policy);
            if (machines != manifest.machines.end()) gpu_ = gpu_of_machines(machines->second);
            if (gpu_.empty()) gpu_ = options_.spare_gpu;
        }
        if (!run.matmul_formats) return;
        peak_.add(relative_peak(*run.matmul_formats, gpu_));
        const VendorGpu* gpu = find_vendor_gpu(gpu_);
        const std::string operand = operand_without_unit(*run.matmul_formats, gpu_);
        if (gpu != nullptr && !operand.empty())
            policy_.no_peak = fmt::format("{} has no unit for {}", gpu->title, printable(operand));
    }

    void add_steps(const RunLog& run) {
        for (const StepRow& step : run.steps) {
            ++steps_;
            skipped_ += step.skipped;
            if (!step.skipped) lost_.add(double(step.lost_updates));
            efficiency_.add(step.update_eff), stagnation_.add(step.update_stagnation);
            cosine_.add(step.grad_cosine), proj_.add(step.grad_proj);
        }
        loss_spikes_.add(spikes_of(run, [](const StepRow& step) { return step.loss; }));
        norm_spikes_.add(spikes_of(run, [](const StepRow& step) { return double{step.grad_norm}; }));
    }

    void add_sites(const RunLog& run) {
        const SiteFigures sites = run.site_figures ? *run.site_figures : site_figures(run.sites);
        underflow_ += sites.underflow;
        count_ += sites.count;
        gradients_underflow_ += sites.gradients_underflow;
        gradients_ += sites.gradients;
        sampled_steps_ = std::max(sampled_steps_, sites.sampled_steps);
        for (const FormatRange& range : sites.ranges) add_range(ranges_, range);
        add_overflow(run, sites);
        if (!sites.first_step || (policy_.first_site_step && *sites.first_step >= *policy_.first_site_step)) return;
        policy_.row.first_site = sites.first;
        policy_.first_site_why = sites.first_why;
        policy_.first_site_step = sites.first_step;
    }

    /// Records the first forward overflow of a run. An overflow is found in the sampled sites, or in a step whose first
    /// non-finite cast is at a site with a narrow format. The search ends at the first loss that is not finite, because
    /// NaN weights may cause later overflows.
    void add_overflow(const RunLog& run, const SiteFigures& sites) {
        if (const auto step = sites.forward_overflow.first_step)
            overflowed(sites.forward_overflow_format, sites.forward_overflow.site, *step);
        for (const StepRow& step : run.steps) {
            const auto found = sites.narrow_sites.find(step.overflow_site);
            if (step.overflow > 0 && found != sites.narrow_sites.end())
                return overflowed(found->second, step.overflow_site, step.step);
            if (!std::isfinite(step.loss)) return;
        }
    }
    void overflowed(const std::string& format, const std::string& site, std::int64_t step) {
        SummaryRow& row = policy_.row;
        if (row.forward_overflow_step && *row.forward_overflow_step <= step) return;
        row.forward_overflow_format = format, row.forward_overflow_site = site, row.forward_overflow_step = step;
    }

    /// Computes the gap over seeds, the verdict, the detectable gap, and the reason (if any) that limited the verdict.
    void add_gap() {
        SummaryRow& row = policy_.row;
        const PairedMean gap = paired_mean(policy_.seed_gaps);
        const auto seeds = double(policy_.seed_gaps.size());
        double margin = 0;
        if (!policy_.seed_gaps.empty()) {
            baseline_loss_ /= seeds, learned_ /= seeds;
            margin = options_.margin * baseline_loss_;
            row.gap_mean = gap.mean;
            policy_.relative_gap = gap.mean / baseline_loss_;
            if (gap.half_width_95) {
                row.gap_ci_low = gap.mean - *gap.half_width_95;
                row.gap_ci_high = gap.mean + *gap.half_width_95;
            }
        }
        row.verdict = verdict_of(gap, margin);
        if (row.gap_mean && std::isfinite(margin)) row.margin = margin;
        if (gap.detectable && std::isfinite(*gap.detectable)) {
            row.detectable_gap = gap.detectable;
            const double shift = detectable_shift(std::int64_t(policy_.seed_gaps.size()) - 1);
            policy_.seeds_needed = samples_to_detect(margin, *gap.detectable / shift * std::sqrt(seeds));
        }
        if (const Forced* forced = forced_by(gap, margin)) row.forced = std::string(forced->word);
    }

    std::string_view verdict_of(const PairedMean& gap, double margin) const {
        if (is_baseline_) return verdicts::baseline;
        if (failed_ > 0) return verdicts::diverged;
        if (policy_.seed_gaps.empty()) return verdicts::no_baseline;
        if (policy_.seed_gaps.size() == 1) return verdicts::one_seed;
        const SummaryRow& row = policy_.row;
        if (gap.mean - *gap.half_width_90 > -margin && gap.mean + *gap.half_width_90 < margin)
            return *row.gap_ci_low > 0 || *row.gap_ci_high < 0 ? verdicts::within_margin : verdicts::no_difference;
        return *row.gap_ci_low > 0 ? verdicts::worse : verdicts::undecided;
    }

    const Forced* forced_by(const PairedMean& gap, double margin) const {
        const std::string& verdict = policy_.row.verdict;
        if (verdict == verdicts::one_seed) return &forced::one_seed;
        if (verdict == verdicts::diverged) return has_failed_baseline_ ? &forced::baseline_failed : nullptr;
        if (verdict == verdicts::undecided) return *gap.half_width_90 >= margin ? &forced::wide_interval : nullptr;
        if (!is_equivalent(verdict)) return nullptr;
        if (is_same_) return &forced::same_losses;
        return learned_ < margin ? &forced::nothing_learned : nullptr;
    }

    const SummaryOptions options_;
    std::string gpu_;  ///< see SummaryRow::peak_gpu; empty until it is known
    PolicySummary policy_;
    double loss_ = 0, baseline_loss_ = 0;
    double learned_ = 0;  ///< decrease of the baseline's loss during the run
    std::int64_t failed_ = 0, steps_ = 0, skipped_ = 0, bytes_ = 0, baseline_bytes_ = 0;
    std::uint64_t underflow_ = 0, count_ = 0, gradients_underflow_ = 0, gradients_ = 0;
    std::int64_t sampled_steps_ = 0;
    std::vector<FormatRange> ranges_;
    std::vector<FailedRuns> failures_;
    bool is_baseline_ = true, is_same_ = true, has_failed_baseline_ = false;
    Mean lost_, efficiency_, stagnation_, cosine_, proj_, loss_spikes_, norm_spikes_, static_, activations_, peak_;
};

}  // namespace

class PolicyFold::Parts : public RunsOfPolicy {
  public:
    using RunsOfPolicy::RunsOfPolicy;
};

PolicyFold::PolicyFold(std::string name, const SummaryOptions& options)
    : parts_(std::make_unique<Parts>(std::move(name), options)) {}
PolicyFold::~PolicyFold() = default;
PolicyFold::PolicyFold(PolicyFold&&) noexcept = default;
void PolicyFold::add(const RunLog& run, const RunLog* baseline, const ManifestFacts& manifest) {
    parts_->add(run, baseline, manifest);
}
PolicySummary PolicyFold::summary() { return parts_->summary(); }

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
    if (failed()) return;
    if (!std::isfinite(loss)) {
        if (!skipped) reason_ = &failures::loss_not_finite;
        return;
    }
    ema_ = ema_ ? Rules::ema_decay * *ema_ + (1 - Rules::ema_decay) * loss : loss;
    least_ = least_ ? std::min(*least_, *ema_) : *ema_;
    in_a_row_ = *ema_ > *least_ + Rules::failure_rise ? in_a_row_ + 1 : 0;
    if (in_a_row_ >= Rules::failure_steps) reason_ = &failures::loss_rose;
}

double baseline_loss_of(const PolicySummary& policy) {
    const double whole = policy.row.gap_mean.value_or(NAN) / policy.relative_gap.value_or(NAN);
    // If the gap is exactly zero, `whole` is 0 / 0. The intervals are then zero as well, unless the seeds have
    // different gaps.
    return std::isfinite(whole) ? whole : policy.row.loss;
}

Summary summarise(const Log& log, const SummaryOptions& options) {
    const DefaultFloatModes modes;
    Summary summary{.policies = {}, .notes = log.notes, .margin = options.margin};
    for (const RunLog& run : log.runs) {
        if (run.row.status.starts_with("failed")) {
            summary.notes.push_back(fmt::format("run {} {}", run.row.run, run.row.status));
        }
    }
    std::vector<ManifestFacts> manifests;
    for (const RunFolder& folder : log.folders) manifests.push_back(manifest_facts(folder));
    summary.setup = setup_words(manifests);
    SummaryOptions of_policies = options;
    if (const std::string gpu = gpu_of_manifests(manifests); !gpu.empty()) of_policies.spare_gpu = gpu;
    for (const std::string& name : log.policies()) {
        // If some runs of a policy are finished, its unfinished runs are left out, because their latest steps cannot be
        // averaged with the last steps of finished runs. If no run is finished, all runs are summarised.
        const bool has_finished = std::any_of(log.runs.begin(), log.runs.end(), [&](const RunLog& run) {
            return run.policy == name && !is_unfinished(run);
        });
        PolicyFold fold(name, of_policies);
        std::int64_t left_out = 0;
        for (const RunLog& run : log.runs) {
            if (run.policy != name) continue;
            if (has_finished && is_unfinished(run)) {
                ++left_out;
                continue;
            }
            const RunLog* baseline = run.baseline ? &log.runs[*run.baseline] : nullptr;
            if (has_finished && baseline != nullptr && is_unfinished(*baseline)) baseline = nullptr;
            fold.add(run, baseline, run.folder < manifests.size() ? manifests[run.folder] : ManifestFacts{});
        }
        if (left_out > 0) {
            summary.notes.push_back(
                fmt::format("{}: {} unfinished seed{} left out; `macheps train --resume` finishes stopped runs", name,
                            left_out, left_out == 1 ? "" : "s"));
        }
        PolicySummary policy = fold.summary();
        const bool unpaired =
            policy.row.policy != baseline_policy && std::int64_t(policy.seed_gaps.size()) < policy.row.seeds;
        if (unpaired) {
            summary.notes.push_back(fmt::format("{}: only {} of {} seeds have an fp32 run to compare with", name,
                                                policy.seed_gaps.size(), policy.row.seeds));
        }
        summary.policies.push_back(std::move(policy));
    }
    return summary;
}

Summary summarise(const std::filesystem::path& folder) { return summarise(read_runs(std::span(&folder, 1))); }

}  // namespace macheps::reports
