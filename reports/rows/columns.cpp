// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/columns.hpp"

#include "reports/rows/analysis_words.hpp"
#include "reports/rows/column_words.hpp"
#include "reports/rows/event.hpp"
#include "reports/rows/formula_row.hpp"
#include "reports/rows/gemm_row.hpp"
#include "reports/rows/run_failures.hpp"
#include "reports/rows/run_verdicts.hpp"
#include "reports/rows/solve_row.hpp"
#include "reports/rows/sum_row.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>
#include <tuple>

namespace macheps::reports {

namespace {

constexpr ColumnWords run_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of the initial weights and of the batches; runs with the same seed are compared with each other",
     ""},
    {"status", "",
     "`ok`: all steps were done; `diverged`: the run ended early, because its loss was not finite; or `failed: ` "
     "followed by the reason. A run that is `ok` may still count as failed in a verdict, for example because its loss "
     "ended above that of the first step",
     ""},
    {"steps", steps, "optimiser steps done, including skipped ones", ""},
    {"tokens", "tokens", "tokens trained on", "steps * batch * context"},
    {"final_loss", nats, "`loss` of the last step", ""},
    {"best_loss", nats, "smallest finite `loss` of any step", ""},
    {"skipped_steps", steps, "steps that the loss scaler skipped because a gradient was not finite", ""},
    {"diverged_step", "step",
     "step at which the run ended early, because its loss was not finite or the loss scaler gave up; empty otherwise",
     ""},
    {"seconds", "s",
     "wall-clock time of the emulated steps; this time says nothing about the speed of real hardware, and differs "
     "between computers",
     ""},
    {"tokens_per_second", "tokens/s", "speed of the emulation", "tokens / seconds"},
    {"bytes_params", bytes, "parameters in the formats of the policy", "sum of elements * bits / 8"},
    {"bytes_grads", bytes,
     "gradients, and the sums of gradients over micro-batches if these sums are stored separately", "as bytes_params"},
    {"bytes_master", bytes, "master copies of the parameters", "as bytes_params"},
    {"bytes_optimizer", bytes, "moments of the optimiser", "as bytes_params"},
    {"bytes_activations", bytes, "activations that one micro-batch on one rank keeps for the backward pass",
     "as bytes_params"},
    {"parameters", "weights", "number of weights of the model; missing in rows of earlier versions", ""},
    {"matmul_formats", "multiply-adds",
     "multiply-adds of one sample in a step, for each pair of operand formats: `bf16*bf16:98304;e4m3fn*e5m2:24576`. "
     "`e4m3fn/mx32` is an operand with block scales, which the matrix unit applies",
     ""},
    {"low_linears", "layers", "linear layers whose operands have 8 bits or fewer; missing in rows of earlier versions",
     ""},
    {"asked_linears", "layers",
     "linear layers for which the policy asks for 8 bits or fewer. The layers that `low_linears` does not count were "
     "left unchanged because of a filter, their size or their block",
     ""},
    {"stress", "", "stress that `--stress` applied to the model, such as `outliers=2^11`; empty without a stress", ""},
};

constexpr ColumnWords step_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of the initial weights and of the batches", ""},
    {"step", "step", "number of the optimiser step, counted from 0", ""},
    {"tokens", "tokens", "tokens trained on, including those of this step", "(step + 1) * batch * context"},
    {"loss", nats, "cross entropy of the policy's logits, computed in fp64; all comparisons use it",
     "mean over tokens of log sum exp(z) - z[target]"},
    {"baseline_loss", nats, "`loss` of the fp32 run with the same seed at this step", ""},
    {"gap", nats, "difference from the loss of the fp32 run with the same seed", "loss - baseline_loss"},
    {"grad_norm", "nats", "norm of all gradients after unscaling and before clipping", "sqrt(sum g^2)"},
    {"update_norm", "", "norm of the change of the stored weights", "sqrt(sum (w_after - w_before)^2)"},
    {"lr", "", "learning rate of this step", ""},
    {"loss_scale", "",
     "factor by which the loss was multiplied in the backward pass of this step; 1 without a loss scaler", ""},
    {"growth_tracker", steps,
     "steps without an overflow since the last change of the loss scale, counted after this step", ""},
    {"skipped", "0 or 1", "1 if a gradient was not finite and the optimiser therefore skipped the step", ""},
    {"overflow_site", "",
     "first site, in the order of execution, whose cast received or produced a value that is not finite", ""},
    {"underflow", values, "nonzero values that a cast made zero, over all casts of the step", "x != 0 and q = 0"},
    {"overflow", values, "values beyond the largest finite value of their format, after scaling", "abs(z) > largest"},
    {"saturated", values, "values equal to the largest finite value after their cast", "abs(q) = largest"},
    {"lost_updates", "weights", "weights that did not change although their update was not zero",
     "wanted != 0 and w_after = w_before"},
    {"update_eff", share,
     "projection of the actual weight changes onto the changes that the optimiser asked for; 1 means that nothing is "
     "lost on average; empty in a skipped step",
     "<moved, wanted> / <wanted, wanted>"},
    {"loss_rounded", nats,
     "loss as the policy computes it: the log-probabilities and their mean are rounded as the policy says; missing in "
     "rows of schema 1",
     ""},
    {"update_stagnation", share, "share of the nonzero updates that did not change their weight",
     "lost / nonzero updates"},
    {"effective_lr", "", "learning rate with which the weights actually changed", "lr * update_eff"},
    {"grad_cosine", share,
     "cosine similarity between the gradients of a sampled step and those of fp32 with the same weights and batch",
     "<g, g32> / (|g| |g32|)"},
    {"grad_proj", share, "projection of the gradients onto those of fp32 with the same weights and batch",
     "<g, g32> / <g32, g32>"},
    {"grad_snr_db", "dB",
     "signal-to-noise ratio of the gradients: the signal is the fp32 gradients, and the noise is the difference from "
     "the fp32 gradients",
     "20 log10(|g32| / |g - g32|)"},
    {"grad_cosine_least", share,
     "smallest value, over all parameter tensors, of the cosine similarity between its gradient and its fp32 gradient",
     "as grad_cosine"},
    {"grad_least_parameter", "", "name of the parameter tensor with the cosine similarity `grad_cosine_least`", ""},
    {"moment_stagnation", share,
     "share of the second moments that did not change although they or their gradient were not zero",
     "unchanged / all"},
    {"first_diverging_site", "",
     "first site of a sampled step, in the order of execution, whose values are far from those of fp32 with the same "
     "weights and batch; empty if no values are far from those of fp32",
     "|v - v32| > 0.5 |v32|"},
    {"farthest_site", "", "site of a sampled step whose values are farthest from those of fp32", ""},
    {"farthest_distance", share,
     "distance between the values at `farthest_site` and those of fp32; `inf` if a value is not finite",
     "|v - v32| / |v32|"},
};

constexpr ColumnWords eval_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of the initial weights and of the batches", ""},
    {"step", "step", "the model was evaluated before this step; the batches are the same for every policy and seed",
     ""},
    {"eval_loss", nats, "held-out loss under the policy, computed in fp64 from its logits", "as `loss` of steps.csv"},
    {"eval_loss_fp32", nats, "held-out loss of the master weights, evaluated in fp32", ""},
    {"perplexity", "tokens", "number of equally likely tokens that would give this loss", "exp(eval_loss)"},
    {"entropy_floor", nats, "smallest loss that any model can reach; empty unless the data is the synthetic language",
     "conditional entropy of the generator"},
};

constexpr ColumnWords site_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of the initial weights and of the batches", ""},
    {"step", "step", "step in which the sites were sampled (`--probe-every`)", ""},
    {"site", "", "`site:slot` at which values were cast; in a run that rounds nothing, every slot has a row", ""},
    {"format", "", "format to which the cast rounds; fp32 if nothing is rounded", ""},
    {"scale_inv_min", "", "smallest decode scale of the casts at this site; 1 without scaling",
     "y = q * scale_inv, z = x / scale_inv"},
    {"scale_inv_max", "", "largest decode scale of the casts at this site", ""},
    {"count", values, "values cast at this site in this step", ""},
    {"zero_in", values, "values that were zero, of either sign, before the cast", "x = 0"},
    {"underflow", values, "nonzero values that the cast made zero", "x != 0 and q = 0"},
    {"to_subnormal", values, "values that are subnormal after the cast and therefore have fewer digits",
     "0 < abs(q) < 2^emin"},
    {"overflow", values, "values beyond the largest finite value of the format", "abs(z) > largest"},
    {"saturated", values, "values equal to the largest finite value after the cast", "abs(q) = largest"},
    {"nan_in", values, "values that were NaN before the cast; of the other columns, only `count` includes them", ""},
    {"inf_in", values, "values that were infinite before the cast; of the other columns, only `count` includes them",
     ""},
    {"amax", "", "largest finite magnitude before the cast; 0 if no value is finite", "max abs(x)"},
    {"amin_nz", "", "smallest nonzero magnitude before the cast", "min abs(x), x != 0"},
    {"mse", "", "mean squared error of the cast", "mean (y - x)^2"},
    {"sqnr_db", "dB", "signal-to-quantisation-noise ratio; `inf` if nothing was rounded",
     "10 log10(sum x^2 / sum (y - x)^2)"},
    {"cosine", share, "cosine of the angle between the values before and after the cast",
     "<x, y> / sqrt(<x, x> <y, y>)"},
    {"proj", share,
     "projection of the values after the cast onto the values before the cast; 1 means that the cast is unbiased",
     "<x, y> / <x, x>"},
    {"subnormal_inexact", values, "values that are subnormal after the cast and were changed by it",
     "0 < abs(q) < 2^emin and y != x"},
    {"overflow_rounded", values, "values that would exceed the largest finite value after rounding to nearest even",
     ""},
    {"block_flush", "blocks",
     "blocks (groups of values with one scale) that contained a nonzero value before the cast and contain only zeros "
     "after the cast; empty without scales",
     ""},
    {"dynamic_range", "powers of two", "ratio of the largest to the smallest nonzero magnitude, in powers of two",
     "log2(amax) - log2(amin_nz)"},
    {"headroom_bits", "powers of two",
     "ratio of the largest finite value to the largest scaled magnitude, in powers of two; if this column is negative, "
     "values overflow",
     "log2(largest / max abs(z))"},
    {"rel_err_mean", share, "mean relative error of the cast over the nonzero values", "abs(y - x) / abs(x)"},
    {"rel_err_max", share, "largest relative error of the cast", "as rel_err_mean"},
    {"bias_rel", share,
     "mean change of the magnitude, relative to the mean magnitude; positive if the cast makes magnitudes larger on "
     "average",
     "sum sgn(x) (y - x) / sum abs(x)"},
    {"scale_age", "micro-batches", "micro-batches since a delayed scale last changed; empty without delayed scaling",
     ""},
    {"scale_frozen_steps", "micro-batches",
     "number of the most recent consecutive micro-batches in which a delayed scale was kept because amax was 0, "
     "infinite or NaN",
     ""},
    {"scale_exp_hist", "",
     "histogram of the decode scales by exponent, as `exponent:count` joined by semicolons. An exponent may also be "
     "`zero`, `inf` or `nan`. The byte of an e8m0 scale is its exponent + 127. Empty without scaling",
     "floor(log2(scale_inv))"},
};

constexpr ColumnWords exponent_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"step", "step", "step in which histograms were recorded (`--histogram-every`)", ""},
    {"site", "", "`site:slot`, as in sites.csv", ""},
    {"exponent", "", "the bin: an integer, or `zero`, `inf` or `nan`. Values are counted before scaling",
     "floor(log2 abs(x))"},
    {"count", values, "values in this bin; empty bins have no row", ""},
    {"kind", "", "`number`, `zero`, `inf` or `nan`; missing in rows of earlier versions", ""},
    {"floor_log2", "", "`exponent` as a number; empty if `kind` is not `number`; missing in rows of earlier versions",
     "floor(log2 abs(x))"},
};

constexpr ColumnWords hash_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"step", "step", "number of the optimiser step, counted from 0", ""},
    {"micro_batch", "", "number of the micro-batch in the step, counted from 0", ""},
    {"site", "", "`site:slot`, or the name of a parameter, a gradient or an optimiser state; in the order of execution",
     ""},
    {"count", values, "values in the tensor", ""},
    {"hash", "hexadecimal", "hash of the bits of all values; equal tensors have equal hashes",
     "sum mod 2^64 of a mix of index and bits"},
};

constexpr ColumnWords summary_words[] = {
    {"policy", "", "name of the policy; `policy@directory` if the runs of this name differ between directories", ""},
    {"seeds", "runs", "number of runs of this policy", ""},
    {"loss", nats, "mean `loss` of the last W steps of a run, averaged over the seeds",
     "W = min(50, steps / 4), at least 1"},
    {"gap_mean", nats, "mean gap of the last W steps of a run, averaged over the seeds",
     "mean of loss - baseline_loss"},
    {"gap_ci_low", nats, "lower end of the 95 % confidence interval of the gap; empty with one seed",
     "gap_mean - t(0.975, seeds - 1) s / sqrt(seeds)"},
    {"gap_ci_high", nats, "upper end of the 95 % confidence interval of the gap; empty with one seed",
     "gap_mean + t(0.975, seeds - 1) s / sqrt(seeds)"},
    {"verdict", "", run_verdict_words, ""},
    {"diverged_step", "step",
     "first of 10 consecutive steps whose smoothed gap exceeds 0.1 % of the fp32 loss, in the seed in which this "
     "happens first. The loss curves separate here, even if the gap stays small",
     "abs(ema(gap)) > 0.001 baseline_loss, decay 0.9"},
    {"first_site", "",
     "`site:slot` of the first row of sites.csv with more than 1 % underflow, with a NaN or infinity, or with an "
     "overflow (with a scale: more than 0.1 % overflow)",
     ""},
    {"skipped_rate", share, "share of all steps that the loss scaler skipped", ""},
    {"underflow_rate", share, "share of the values counted in sites.csv that underflowed", "sum underflow / sum count"},
    {"slowdown", "",
     "always empty. Earlier versions wrote a ratio of emulation times, which says nothing about a recipe. The column "
     "is kept for programs that read old files",
     ""},
    {"memory_ratio", share, "sum of the columns `bytes_*` of runs.csv, relative to the same sum of fp32",
     "sum bytes_* / sum bytes_* of fp32"},
    {"steps", steps, "steps of the shortest run of the policy", ""},
    {"margin", nats, "margin of equivalence (`--margin`)", "0.25 % of the fp32 loss by default"},
    {"detectable_gap", nats,
     "smallest detectable gap: a comparison with the same number of seeds and the same scatter detects a gap of this "
     "size with a probability of 80 %; empty with one seed",
     "noncentral t at power 0.8, s / sqrt(seeds)"},
    {"forced", "",
     "reason why these runs allowed only some of the verdicts; empty if every verdict was possible. `one_seed`: a "
     "single seed has no interval; `baseline_failed`: the fp32 run failed as well; `same_losses`: every loss is "
     "identical to that of fp32; `nothing_learned`: the loss of fp32 fell by less than the margin, so even a policy "
     "that learns nothing passes; `wide_interval`: the 90 % interval is at least as wide as the range from "
     "-margin to +margin, so the verdict could not be `no difference found`, but `worse` remained possible",
     ""},
    {"failed_seeds", "runs", "number of runs that failed (`failures` has the reasons)", ""},
    {"static_bytes", "bytes/parameter",
     "parameters, gradients, master copies and optimiser state, which are kept from step to step", ""},
    {"activation_bytes", "bytes/parameter", "activations of one micro-batch on one rank", ""},
    {"peak_gpu", "",
     "GPU to which `relative_peak` applies: `--gpu`, or the GPU of the policy's machines. If these name no GPU, the "
     "GPU "
     "of the other policies' machines if they agree on one, or else h100",
     ""},
    {"relative_peak", share,
     "peak speed of dense matmuls in the formats that the policy multiplies, relative to bf16 (to fp16 on a GPU "
     "without bf16). The speeds are the vendor's figures, not measurements",
     ""},
    {"loss_spikes", "%",
     "spike score of the loss: share of the steps in which the loss is far from its previous values", ""},
    {"grad_norm_spikes", "%",
     "spike score of the gradient norm: share of the steps in which the norm is far from its previous values", ""},
    {"update_stagnation", share, "mean of this column of steps.csv over all steps", "as in steps.csv"},
    {"update_eff", share, "mean of this column of steps.csv over all steps", "as in steps.csv"},
    {"grad_cosine", share, "mean of this column of steps.csv over the sampled steps", "as in steps.csv"},
    {"grad_proj", share, "mean of this column of steps.csv over the sampled steps", "as in steps.csv"},
    {"stress", "", "as in runs.csv", ""},
    {"sampled_steps", steps, "number of sampled steps, in the run with the most sampled steps", ""},
    {"forward_ranges", "",
     "for each format, the largest forward value before its cast and the largest finite number of the format, or "
     "`scaled` if every cast to the format has a scale. Example: `fp16:5.29/65504;e4m3fn:scaled`",
     ""},
    {"forward_overflow_format", "",
     "format of the first overflow of a forward value that was cast without a scale; only formats with a narrower "
     "range than fp32 count",
     "abs(x) > largest"},
    {"forward_overflow_site", "", "`site:slot` of the overflow that `forward_overflow_format` describes", ""},
    {"forward_overflow_step", "step",
     "step of the overflow that `forward_overflow_format` describes, in the seed with the earliest overflow", ""},
    {"failures", "", run_failure_words, ""},
};

constexpr std::string_view of_products = "|a||b|";
constexpr ColumnWords gemm_words[] = {
    {"machine", "",
     "name of the machine, order of summation or rule, as given on the command line; it may have a suffix such as "
     "`+promote128`",
     ""},
    {"format_a", "", "format of operand a, [m, k]", ""},
    {"format_b", "", "format of operand b, [k, n]", ""},
    {"output", "", "format of the output; errors in ulp are in ulps of this format", ""},
    {"distribution", "", "distribution from which the operands are drawn", ""},
    {"scaling", "", "scaling of the operands: `none`, or the group of elements that shares a scale", ""},
    {"scale", "", "factor by which the drawn values are multiplied", ""},
    {"seed", "", "seed of the drawn values", ""},
    {"m", "rows", "rows of a and of the output", ""},
    {"n", "columns", "columns of b and of the output", ""},
    {"k", "terms", "terms of each sum", ""},
    {"outputs", values, "finite outputs, including those in `saturated`", ""},
    {"nonfinite", values, "outputs that are infinite or NaN; no error figure includes them", ""},
    {"max_rel", share, "largest relative error; outputs whose exact value is zero are left out",
     "abs(e) / abs(exact), e = out - exact"},
    {"mean_rel", share, "mean relative error of the outputs", "as max_rel"},
    {"rms_rel", share, "root mean square of the relative errors of the outputs", "as max_rel"},
    {"max_ulp", "ulp", "largest error, in ulps at the exact value", "abs(e) / ulp(exact)"},
    {"mean_ulp", "ulp", "mean error, in ulps at the exact value", "as max_ulp"},
    {"sqnr_db", "dB", "signal-to-error ratio; `inf` without error", "10 log10(sum exact^2 / sum e^2)"},
    {"max_error", of_products,
     "largest error of an output relative to the sum of the magnitudes of its products. `unit`, `bound` and "
     "`probable_bound` are bounds on this error",
     "abs(e) / sum abs(a b)"},
    {"rms_error", of_products, "root mean square of the errors, relative as in `max_error`", "as max_error"},
    {"bias", of_products, "mean of the errors with their signs, relative as in `max_error`",
     "mean of e / sum abs(a b)"},
    {"drift", of_products,
     "mean of the errors, relative as in `max_error`. An error is positive if it makes the output larger in magnitude, "
     "so the mean is negative if sums are too small",
     "mean of e sign(exact) / sum abs(a b)"},
    {"unit", of_products, "guaranteed bound on max_error, divided by k; the bound holds if nothing underflows", ""},
    {"bound", of_products,
     "guaranteed bound on max_error, which is known before the product is computed; empty if no bound is known",
     "k * unit, plus a term for the underflow of the operands"},
    {"probable_bound", of_products,
     "probable bound on max_error: the mean error of truncation, plus lambda standard deviations of all rounding "
     "errors",
     ""},
    {"lambda", "deviations",
     "number of standard deviations in probable_bound; an output exceeds that bound with a probability below 2 "
     "exp(-lambda^2 / 2)",
     ""},
    {"first", "", "computed value of out[0,0]", ""},
    {"first_exact", "", "exact value of out[0,0], rounded once to fp64", ""},
    {"operand_sqnr_db", "dB",
     "signal-to-noise ratio of the rounding of the operands. The signal is the exact product of the drawn operands. "
     "The noise is the difference between this product and the exact product of the rounded operands. Empty if "
     "rounding changed no operand",
     ""},
    {"evidence", "",
     "kind of evidence that the machine is modelled correctly, as in docs/evidence.md; `unverified` if the rule as a "
     "whole has no source",
     ""},
    {"beyond_bound", values, "outputs whose error exceeds the guaranteed bound of this output; 0 if the model is right",
     ""},
    {"beyond_probable", values, "outputs whose error exceeds the probable bound of this output", ""},
    {"via", "",
     "method that computed the product from narrower products (`--via`). Without `--via`, this column and the next six "
     "are empty",
     ""},
    {"digit_bits", "bits",
     "bits of a digit (`ozaki1`), of the integers that represent the numbers (`ozaki2`), or of a part (other methods)",
     ""},
    {"slices", "", "number of digits (`ozaki1`), residues (`ozaki2`) or parts (other methods) of each number", ""},
    {"products", "", "number of narrow products that the machine computed", ""},
    {"inexact_products", values,
     "elements of the narrow products that are not the expected integers; 0 if the digits are small enough for exact "
     "sums",
     ""},
    {"combine", "",
     "how the digit products are summed: `fp64` rounds after each addition, `exact` rounds once at the end", ""},
    {"fp64_error", of_products, "max_error of a chain with one fp64 fma per term, on the same data", ""},
    {"saturated", values,
     "outputs that are finite although a sum or the output overflowed, because the format has no Inf and no NaN or the "
     "rounding mode returns the largest finite number; no error figure includes them",
     ""},
    {"plain_error", of_products,
     "for `--via`: max_error of a chain with one fma per term in the format of the output, on the same data", ""},
    {"plain_max_ulp", "ulp", "for `--via`: max_ulp of the chain of `plain_error`", "as max_ulp"},
    {"plain_mean_ulp", "ulp", "for `--via`: mean_ulp of the chain of `plain_error`", "as mean_ulp"},
};

/// Returns whether `words` describes the columns of Row, in their order.
template <class Row, std::size_t n>
consteval bool covers(const ColumnWords (&words)[n]) {
    return Row::columns([&](const auto&... column) {
        std::size_t i = 0;
        return sizeof...(column) == n && ((column.name == words[i++].name) && ...);
    });
}
static_assert(covers<RunRow>(run_words), "run_words lacks words for a column of RunRow");
static_assert(covers<StepRow>(step_words), "step_words lacks words for a column of StepRow");
static_assert(covers<EvalRow>(eval_words), "eval_words lacks words for a column of EvalRow");
static_assert(covers<SiteRow>(site_words), "site_words lacks words for a column of SiteRow");
static_assert(covers<ExponentRow>(exponent_words), "exponent_words lacks words for a column of ExponentRow");
static_assert(covers<HashRow>(hash_words), "hash_words lacks words for a column of HashRow");
static_assert(covers<SummaryRow>(summary_words), "summary_words lacks words for a column of SummaryRow");
static_assert(covers<GemmRow>(gemm_words), "gemm_words lacks words for a column of GemmRow");
static_assert(covers<SolveRow>(solve_words), "solve_words lacks words for a column of SolveRow");
static_assert(covers<FormulaRow>(formula_words), "formula_words lacks words for a column of FormulaRow");
static_assert(covers<FormulaPointRow>(formula_point_words),
              "formula_point_words lacks words for a column of FormulaPointRow");
static_assert(covers<SumRow>(sum_words), "sum_words lacks words for a column of SumRow");
static_assert(covers<SolveStepRow>(solve_step_words), "solve_step_words lacks words for a column of SolveStepRow");

struct FileWords {
    std::string_view file, row;
    std::span<const ColumnWords> columns;
};

constexpr FileWords files[] = {
    {RunRow::file, "Each row is a run of one policy with one seed.", run_words},
    {StepRow::file,
     "Each row is an optimiser step of a run. In the formulas of `underflow`, `overflow` and `saturated`, x, z and q "
     "are the\n"
     "values of a cast, as defined for sites.csv.",
     step_words},
    {EvalRow::file, "Each row is a held-out evaluation of a run.", eval_words},
    {SiteRow::file,
     "Each row counts the casts of one slot in one sampled step. x is a value before its cast. scale_inv is its decode "
     "scale,\n"
     "which is 1 without scaling. The cast rounds z = x / scale_inv to q, a number of the format. The result is\n"
     "y = q * scale_inv. If a matrix unit rounds its own outputs, only y is known. Then `amax` and `amin_nz` describe "
     "y,\n"
     "and the columns that compare x with y are empty.",
     site_words},
    {ExponentRow::file,
     "Each row is one bin of a histogram, which counts the values of one slot in one sampled step by exponent.",
     exponent_words},
    {HashRow::file,
     "Each row is the hash of one tensor: of a slot, a gradient, a parameter or an optimiser state (`train "
     "--hash-sites`).",
     hash_words},
    {SummaryRow::file, "Each row compares a policy with fp32 (`macheps train` and `macheps report` write the file).",
     summary_words},
    {GemmRow::file,
     "Each row is a matrix product on a machine (`macheps gemm`). Each output is a sum of k products. Its error is\n"
     "e = out - exact, where `exact` is the exact product of the rounded operands.",
     gemm_words},
    {SolveRow::file,
     "Each row is a linear system A x = b, factored in one format and solved in one way (`macheps solve`). r is the "
     "residual\n"
     "b - A x. The norm of a vector is its largest magnitude, and the norm of a matrix is its largest row sum of "
     "magnitudes.",
     solve_words},
    {FormulaRow::file, "Each row is a formula in one format (`macheps eval`).", formula_words},
    {FormulaPointRow::file, "Each row is one input of a formula (`macheps eval --points-out`).", formula_point_words},
    {SumRow::file,
     "Each row is a sum by one method in one format (`macheps sum`). s is the exact sum of the terms, and S is the sum "
     "of\n"
     "their magnitudes.",
     sum_words},
    {SolveStepRow::file, "Each row is one iterate x of a refinement (`macheps solve --steps`).", solve_step_words},
};

/// Escapes vertical bars, which would end a cell of a Markdown table.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : text) c == '|' ? out += "\\|" : out += c;
    return out;
}

/// Formats a formula as code, unless it refers to another formula in words.
std::string code(std::string_view text) {
    const bool is_words =
        text.empty() || text.front() == '`' || text.starts_with("the same") || text.starts_with("as ");
    return is_words ? cell(text) : fmt::format("`{}`", cell(text));
}

}  // namespace

std::string columns_markdown() {
    std::string out =
        "# The columns of every CSV file\n\n"
        "For anyone who reads the CSV files of macheps. `macheps report --columns` generates this page from the row "
        "types of the\n"
        "program, and a test compares the page with them.\n"
        "\n"
        "- An empty cell means that the value was not measured. `nan`, `inf` and `-inf` are measurements.\n"
        "- Find columns by name. New columns are added at the end of a file, so files of earlier versions lack the "
        "last columns.\n"
        "- The unit 1 marks a share or a ratio. Losses are in nats; divide them by ln 2 to get bits.\n"
        "- A site is a named computation of the model, such as `block.0.mlp.up`. A slot is a tensor of a site that may "
        "be\n"
        "  rounded, such as `forward.a`. `site:slot` names a slot of a site.\n"
        "- A sampled step is a step whose casts are recorded in sites.csv (`--probe-every`).\n";
    for (const FileWords& file : files) {
        out += fmt::format("\n## {}\n\n{}\n\n| column | unit | meaning | formula |\n|---|---|---|---|\n", file.file,
                           file.row);
        for (const ColumnWords& words : file.columns) {
            out += fmt::format("| `{}` | {} | {} | {} |\n", words.name, cell(words.unit), cell(words.meaning),
                               code(words.formula));
        }
    }
    return out;
}

}  // namespace macheps::reports
