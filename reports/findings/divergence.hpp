// SPDX-License-Identifier: Apache-2.0
// Compares runs with their fp32 baseline: how far a policy's loss is from it, since which step, and at which site the
// difference may have begun.
//
// Runs are paired: the same seed gives every policy the same first weights and the same batches. The samples are the
// seeds. Steps of one run are autocorrelated, so they never count as samples. Only + - * / sqrt are used, in the order
// of the rows, so every figure is the same on every machine.
#pragma once
#include "reports/findings/student.hpp"
#include "reports/findings/vendor_peaks.hpp"
#include "reports/logs/divergence_rules.hpp"
#include "reports/logs/run_log.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::reports {

/// Watches one pair of runs, step by step. The ema (exponential moving average, decay 0.9) of loss - baseline starts at
/// its first value. Steps whose difference is not finite do not enter it.
class DivergenceWatch {
  public:
    void add(std::int64_t step, double loss, double baseline_loss, bool skipped);
    /// Returns the first of 10 consecutive steps whose |ema| exceeds 1e-3 of the baseline's loss. A step that was not
    /// skipped and whose loss is not finite, while the baseline's is, also ends the search: the result is then the
    /// first step of the consecutive ones so far, or that step itself if there are none.
    std::optional<std::int64_t> step() const { return found_; }

  private:
    std::optional<double> ema_{};
    std::optional<std::int64_t> found_{}, first_{};
    int in_a_row_ = 0;
};

/// Watches one run. It has failed once its loss was not finite in a step that was not skipped, or once the ema of its
/// loss stayed more than 1 nat above its minimum so far for 50 steps. summarise() checks the other signs of failure,
/// because they need the whole run.
class FailureWatch {
  public:
    void add(double loss, bool skipped);
    bool failed() const { return failed_; }

  private:
    std::optional<double> ema_{}, least_{};
    int in_a_row_ = 0;
    bool failed_ = false;
};

/// The summary of one policy: its row, and figures that are not columns.
struct PolicySummary {
    SummaryRow row{};
    std::vector<double> seed_gaps{};              ///< one per paired seed, in the order of the runs
    std::optional<std::int64_t> seeds_needed{};   ///< to detect a gap of the margin at this scatter; absent beyond 1000
    std::string model{};                          ///< "2 layers x 64"; empty if unknown or if its runs differ
    std::int64_t window = 0, longest_window = 0;  ///< minimum and maximum of W over the seeds
    std::optional<double> relative_gap{};         ///< gap_mean / the baseline's loss
    std::optional<double> gradient_underflow_rate{};  ///< underflow_rate of gradients only
    double lost_updates_per_step = 0;                 ///< mean over the steps that were not skipped
    std::optional<double> update_eff{};               ///< mean over the steps that have one
    std::string first_site_why{};                     ///< "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_site_step{};
    std::optional<double> token_weight{};  ///< absent if it is unknown or if its runs differ
    std::string beside_precision{};        ///< other differences from the fp32 runs, in words; empty if there are none
};

struct Summary {
    std::vector<PolicySummary> policies{};  ///< the baseline first
    std::vector<std::string> notes{};
    double margin = DivergenceRules::equivalence_margin;  ///< of equivalence, as a fraction of the baseline's loss
    std::string gpu{usual_gpu};                           ///< the GPU of `relative_peak`
    std::string setup{};                                  ///< setup_words of the runs' manifests
};

/// Options of a summary.
struct SummaryOptions {
    double margin = DivergenceRules::equivalence_margin;
    std::string gpu{usual_gpu};  ///< a name from vendor_gpus()
};

/// A reason why only one verdict was possible: a word for summary.csv, and a clause for people.
struct Forced {
    std::string_view word, clause;
};
namespace forced {
inline constexpr Forced one_seed{"one_seed", "one seed has no interval"},
    baseline_failed{"baseline_failed", "the fp32 run failed as well"},
    same_losses{"same_losses", "every loss is identical to that of fp32"},
    nothing_learned{"nothing_learned",
                    "fp32 itself learned less than the margin, so a policy that learns nothing passes"},
    wide_interval{"wide_interval", "the seeds scatter by more than the margin, so not even a gap of 0 passes"};
inline constexpr const Forced* all[] = {&one_seed, &baseline_failed, &same_losses, &nothing_learned, &wide_interval};
}  // namespace forced

/// Returns one row per policy of the log.
///
/// - loss: mean over seeds of the mean loss of the last W steps.
/// - gap_mean: mean over seeds of the mean of loss - baseline loss over the last W steps that both runs have.
/// - gap_ci_*: the 95 % t interval of gap_mean, with two seeds or more.
/// - verdict: the first that holds.
///   - `baseline`.
///   - `diverged`: the run of a seed failed. Its status says so, FailureWatch reports it, no step of its last W has a
///     finite loss, or it ended above its first loss after 40 steps or more. The last two need a finished run.
///   - `no_baseline`, `one_seed`.
///   - `equivalent`: the 90 % interval lies within the margin (two one-sided tests at 5 %). By default the margin is
///     0.25 % of the baseline's loss.
///   - `worse`: the 95 % interval is above zero.
///   - `undecided`.
/// - diverged_step: the earliest step that DivergenceWatch gives for any seed.
/// - first_site: over all seeds, the first notable row of sites.csv, by step and then in the order of the file. A row
///   is notable if it has more than 1 % underflow, a NaN or infinity, an overflow without a scale, or, with a scale,
///   overflows of more than one element and more than 0.1 % of them. (Scaling by the current amax may push the largest
///   element over by an ulp.)
/// - skipped_rate: share of all steps. underflow_rate: all underflows over all elements of the rows in sites.csv.
/// - slowdown: empty, see SummaryRow. memory_ratio: all bytes_* over the baseline's.
/// - margin: of equivalence, in nats. detectable_gap: see detectable_shift.
/// - forced: the word of one of forced::all, if no other verdict was possible.
/// - failed_seeds: number of seeds whose runs failed as in `diverged`.
/// - static_bytes: bytes of parameters, gradients, masters and optimiser state, per parameter.
/// - activation_bytes: bytes of the activations of one rank and micro-batch, per parameter.
/// - relative_peak: see vendor_peaks.hpp.
/// - loss_spikes, grad_norm_spikes: mean over seeds of the spike_score of each run, without non-finite values.
/// - update_stagnation, update_eff, grad_cosine, grad_proj: means over the steps of all seeds that have a value.
Summary summarise(const Log& log, const SummaryOptions& options = {});

/// Reads one run directory and summarises it.
Summary summarise(const std::filesystem::path& folder);

}  // namespace macheps::reports
