// SPDX-License-Identifier: Apache-2.0
// Compares the runs of each policy with the fp32 runs, which are the baseline. Finds the difference of the losses, the
// step at which it begins, and the site that may have caused it.
//
// Runs are paired: with the same seed, every policy has the same initial weights and the same batches. Each seed is one
// statistical sample. The steps of a run are autocorrelated, so they never count as samples. The computation uses only
// + - * / and sqrt, in the order of the rows, so every figure is the same on every machine.
#pragma once
#include "reports/findings/student.hpp"
#include "reports/findings/vendor_peaks.hpp"
#include "reports/logs/divergence_rules.hpp"
#include "reports/logs/failed_runs.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/rows/run_verdicts.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace macheps::reports {

/// Finds the step at which the loss of a run departs from the loss of its baseline. Computes the ema (exponential
/// moving average, decay 0.9) of loss - baseline loss. The ema starts at the first difference and skips differences
/// that are not finite.
class DivergenceWatch {
  public:
    void add(std::int64_t step, double loss, double baseline_loss, bool skipped);
    /// Returns the first of 10 consecutive steps whose |ema| exceeds 1e-3 of the baseline's loss. The search also ends
    /// at a bad step: a step that was not skipped and whose loss is not finite, although the baseline's loss is finite.
    /// If the steps just before the bad step exceed the threshold, returns the first of these steps, otherwise the bad
    /// step.
    std::optional<std::int64_t> step() const { return found_; }

  private:
    std::optional<double> ema_{};
    std::optional<std::int64_t> found_{}, first_{};
    int in_a_row_ = 0;
};

/// Detects the failure of a run while its steps are added. The run has failed if its loss was not finite in a step that
/// was not skipped, or if the ema of its loss was more than 1 nat above the minimum of the ema for 50 consecutive
/// steps. summarise() checks the other signs of failure, which need the whole run.
class FailureWatch {
  public:
    void add(double loss, bool skipped);
    bool failed() const { return reason_ != nullptr; }
    /// Returns the reason of the failure, or null.
    const RunFailure* reason() const { return reason_; }

  private:
    std::optional<double> ema_{}, least_{};
    int in_a_row_ = 0;
    const RunFailure* reason_ = nullptr;
};

/// The summary of one policy: its row of summary.csv, and figures that have no column there.
struct PolicySummary {
    SummaryRow row{};
    std::vector<double> seed_gaps{};                             ///< one gap per paired seed, in the order of the runs
    std::vector<std::pair<std::int64_t, double>> seed_losses{};  ///< seed and loss of each run
    std::optional<std::int64_t> seeds_needed{};       ///< seeds needed to detect a gap equal to the margin, if <= 1000
    std::string model{};                              ///< "2 layers x 64"; empty if unknown or if the runs differ
    std::int64_t window = 0, longest_window = 0;      ///< number of averaged steps: minimum and maximum over the seeds
    std::optional<double> relative_gap{};             ///< gap_mean / the baseline's loss
    std::optional<double> gradient_underflow_rate{};  ///< underflow_rate of gradients only
    double lost_updates_per_step = 0;                 ///< mean over the steps that were not skipped
    std::optional<double> update_eff{};               ///< mean over the steps that have a value
    std::string first_site_why{};                     ///< why the site is notable: "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_site_step{};
    std::optional<double> token_weight{};     ///< absent if it is unknown or if the runs differ
    std::string beside_precision{};           ///< settings other than formats that differ from the fp32 runs, in words
    std::vector<std::string> not_emulated{};  ///< what the policy does not emulate of the config that it comes from
    /// Why there is no relative_peak: "NVIDIA H100 SXM has no unit for e4m3fn/mx32"; empty if there is one, or if the
    /// formats are unknown.
    std::string no_peak{};
};

/// Returns the mean loss of fp32 over the steps that are compared with the policy. Returns the loss of the policy
/// itself if it has no gap or a gap of exactly zero.
double baseline_loss_of(const PolicySummary& policy);

struct Summary {
    std::vector<PolicySummary> policies{};  ///< the baseline first
    std::vector<std::string> notes{};
    double margin = DivergenceRules::equivalence_margin;  ///< equivalence margin, as a fraction of the baseline's loss
    std::string setup{};                                  ///< result of setup_words() for the manifests of the runs
};

/// Options of a summary.
struct SummaryOptions {
    double margin = DivergenceRules::equivalence_margin;
    std::string gpu{};                 ///< a name from vendor_gpus(). If empty, each policy has the GPU of its machines
    std::string spare_gpu{usual_gpu};  ///< the GPU of a policy whose machines do not name exactly one
};

/// A reason why the runs did not permit every verdict. `word` is its name in summary.csv. In a sentence, `possible`
/// states which verdicts were possible, and `clause` gives the reason.
struct Forced {
    std::string_view word, possible, clause;
};
namespace forced {
inline constexpr Forced one_seed{"one_seed", "the only other possible verdict was \"diverged\"",
                                 "one seed has no interval"},
    baseline_failed{"baseline_failed", "no other verdict was possible", "the fp32 run failed as well"},
    same_losses{"same_losses", "no other verdict was possible", "every loss is identical to that of fp32"},
    nothing_learned{"nothing_learned", "this verdict says little",
                    "fp32 itself learned less than the margin, so a policy that learns nothing passes"},
    wide_interval{"wide_interval", "the verdict \"no difference found\" was not possible",
                  "the seeds scatter by more than the margin, so not even a gap of 0 passes"};
inline constexpr const Forced* all[] = {&one_seed, &baseline_failed, &same_losses, &nothing_learned, &wide_interval};
}  // namespace forced

/// Returns one row per policy of the log. W is the number of averaged steps: min(50, steps / 4), but at least 1.
///
/// - loss: mean over seeds of the mean loss of the last W steps.
/// - gap_mean: mean over seeds of the gap of a run. The gap is loss - baseline loss, averaged over the last W steps
///   that both runs have.
/// - gap_ci_*: the 95 % t interval of gap_mean, with two seeds or more.
/// - verdict: the first of these that applies.
///   - `baseline`: the policy is fp32.
///   - `diverged`: the run of a seed failed. A run has failed if its status says so or if FailureWatch reports it. A
///     finished run has also failed if none of its last W losses is finite, or if it has 40 steps or more and the mean
///     of its last W losses is above its first loss.
///   - `no fp32 run`: no seed has an fp32 run. `one seed`: only one seed has an fp32 run.
///   - `within the margin`: the 90 % interval lies within the margin (two one-sided tests at 5 %), but the 95 %
///     interval excludes zero. By default the margin is 0.25 % of the baseline's loss.
///   - `no difference found`: the 90 % interval lies within the margin.
///   - `worse`: the 95 % interval is above zero.
///   - `undecided`.
/// - diverged_step: the earliest step that DivergenceWatch reports for any seed.
/// - first_site: the site of the first notable row of sites.csv, over all seeds, by step and then in the order of the
///   file. A row is notable if it has more than 1 % underflow, a NaN or infinity, or an overflow without a scale. A row
///   with a scale is notable if more than one element and more than 0.1 % of the elements overflow. (Scaling by the
///   current amax may push the largest element beyond the range by an ulp.)
/// - skipped_rate: share of all steps that were skipped.
/// - underflow_rate: all underflows divided by all elements of the rows in sites.csv.
/// - slowdown: always empty, see SummaryRow.
/// - memory_ratio: sum of the columns bytes_*, relative to the baseline.
/// - margin: the margin of equivalence in nats. detectable_gap: smallest detectable gap, see detectable_shift().
/// - forced: if a reason of forced::all limited the verdict, its `word`. Each reason has a condition:
///   - `one_seed`: the verdict is `one seed`.
///   - `baseline_failed`: the verdict is `diverged`, and an fp32 run of a failed seed also failed.
///   - `same_losses`: is_equivalent(verdict), and every loss is equal to that of the baseline.
///   - `nothing_learned`: is_equivalent(verdict), and the baseline's loss fell by less than the margin.
///   - `wide_interval`: the verdict is `undecided`, and half the width of the 90 % interval is not below the margin.
///     The verdict could not have been `no difference found`, but it could have been `worse`.
/// - failed_seeds: number of seeds whose runs failed, as defined at `diverged`. failures: their reasons.
/// - static_bytes: bytes of parameters, gradients, masters and optimiser state, per parameter.
/// - activation_bytes: bytes of the activations of one rank and micro-batch, per parameter.
/// - peak_gpu: the GPU of the options, or else the GPU of the policy's machines. If these name no GPU, or several: the
///   GPU of the other policies' machines if they agree on one, or else usual_gpu.
/// - relative_peak: see vendor_peaks.hpp.
/// - loss_spikes, grad_norm_spikes: mean over seeds of spike_score(), without non-finite values.
/// - update_stagnation, update_eff, grad_cosine, grad_proj: means over all steps that have a value, of all seeds.
Summary summarise(const Log& log, const SummaryOptions& options = {});

/// Reads one run directory and summarises it.
Summary summarise(const std::filesystem::path& folder);

}  // namespace macheps::reports
