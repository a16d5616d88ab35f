// SPDX-License-Identifier: Apache-2.0
// Joins runs to their fp32 baseline: how far a policy's loss is from it, since when, and where it may have begun.
//
// Runs are pairs: the same seed gives every policy the same first weights and the same batches. Seeds are the samples;
// steps of one run are autocorrelated and never counted as such. Arithmetic: + - * / sqrt alone, in the order of the
// rows, so that every figure is the same on every machine.
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

/// Watches one pair of runs, step by step. The ema (decay 0.9) of loss - baseline starts at its first value; a step
/// that the loss scaler skipped because its loss was not finite is left out.
class DivergenceWatch {
  public:
    void add(std::int64_t step, double loss, double baseline_loss, bool skipped);
    /// The first of 10 consecutive steps whose |ema| exceeds 1e-3 of the baseline's loss; or the first step, not
    /// skipped, whose loss is not finite while the baseline's is.
    std::optional<std::int64_t> step() const { return found_; }

  private:
    std::optional<double> ema_{};
    std::optional<std::int64_t> found_{}, first_{};
    int in_a_row_ = 0;
};

/// Watches one run: true once its loss was not finite in a step that was not skipped, or its ema stayed more than 1 nat
/// above the least so far for 50 steps. The third sign of failure, an end above the beginning, needs the whole run: see
/// summarise.
class FailureWatch {
  public:
    void add(double loss, bool skipped);
    bool failed() const { return failed_; }

  private:
    std::optional<double> ema_{}, least_{};
    int in_a_row_ = 0;
    bool failed_ = false;
};

/// What was measured of one policy beyond its row.
struct PolicySummary {
    SummaryRow row{};
    std::vector<double> seed_gaps{};              ///< one per paired seed, in the order of the runs
    std::optional<std::int64_t> seeds_needed{};   ///< to see a gap of the margin at this scatter; absent beyond 1000
    std::string model{};                          ///< "2 layers x 64" of all its runs; empty where unknown or not one
    std::int64_t window = 0, longest_window = 0;  ///< W, the least and the greatest over the seeds
    std::optional<double> relative_gap{};         ///< gap_mean / the baseline's loss
    std::optional<double> gradient_underflow_rate{};  ///< underflow_rate, of gradients alone
    double lost_updates_per_step = 0;                 ///< mean over the steps that were not skipped
    std::optional<double> update_eff{};               ///< mean over the steps that have one
    std::string first_site_why{};                     ///< "underflow 3.1 % at step 20"
    std::optional<std::int64_t> first_site_step{};
    std::optional<double> token_weight{};  ///< of all its runs; absent where it is unknown or differs
    std::string beside_precision{};        ///< what else differs from fp32's runs, in words; empty where nothing does
};

struct Summary {
    std::vector<PolicySummary> policies{};  ///< the baseline first
    std::vector<std::string> notes{};
    double margin = DivergenceRules::equivalence_margin;  ///< of equivalence, a part of the baseline's loss
    std::string gpu{usual_gpu};                           ///< whose peaks the policies are told in
    std::string setup{};                                  ///< setup_words of the runs' manifests
};

/// What a summary is asked for beyond the rows.
struct SummaryOptions {
    double margin = DivergenceRules::equivalence_margin;
    std::string gpu{usual_gpu};  ///< of vendor_gpus()
};

/// Why a verdict could not have come out otherwise: a word in summary.csv, and a clause for people.
struct Forced {
    std::string_view word, clause;
};
namespace forced {
inline constexpr Forced one_seed{"one_seed", "one seed has no interval"},
    baseline_failed{"baseline_failed", "the fp32 run failed too"},
    same_losses{"same_losses", "every loss is fp32's to the bit"},
    nothing_learned{"nothing_learned",
                    "fp32 itself learned less than the margin, so that a policy that learns nothing passes"},
    wide_interval{"wide_interval", "the seeds scatter by more than the margin, so that not even a gap of 0 passes"};
inline constexpr const Forced* all[] = {&one_seed, &baseline_failed, &same_losses, &nothing_learned, &wide_interval};
}  // namespace forced

/// One row per policy of the log.
///
/// loss: mean over seeds of the mean loss of the last W steps. gap_mean: mean over seeds of the mean of loss - baseline
/// loss over the last W steps that both runs have; gap_ci_*: its 95 % t interval, with two seeds or more. verdict, the
/// first that holds: `baseline`; `diverged`, a seed's run failed (see FailureWatch; or it ended above its first loss
/// after 40 steps or more); `no_baseline`; `one_seed`; `equivalent`, the 90 % interval lies within 0.25 % of the
/// baseline's loss (two one-sided tests at 5 %); `worse`, the 95 % interval is above zero; `undecided`. diverged_step:
/// the earliest over seeds of DivergenceWatch. first_site: the first row of sites.csv, by step and then in the order of
/// the file, over all seeds, with more than 1 % underflow, a NaN or infinity, an overflow without a scale, or more than
/// 0.1 % and more than one overflow with one (scaling by the current amax may push the largest element itself over by
/// an ulp). skipped_rate: of all steps. underflow_rate: all underflows over all elements of the rows in sites.csv.
/// slowdown: empty, see SummaryRow. memory_ratio: all bytes_* over the baseline's. margin: of equivalence, in nats.
/// detectable_gap: see detectable_shift. forced: the word of one of forced::all, where the verdict could not have come out
/// otherwise. failed_seeds: whose runs failed as in `diverged`. static_bytes: those of parameters, gradients, masters and
/// optimiser over the number of parameters; activation_bytes: those of the activations, of one rank and micro-batch, over
/// the same. relative_peak: see vendor_peaks.hpp. loss_spikes, grad_norm_spikes: spike_score of each run, mean over
/// seeds; of steps whose loss or norm is finite. update_stagnation, update_eff, grad_cosine, grad_proj: means over the
/// steps of all seeds that have one.
Summary summarise(const Log& log, const SummaryOptions& options = {});

/// Reads one run directory and summarises it.
Summary summarise(const std::filesystem::path& folder);

}  // namespace macheps::reports
