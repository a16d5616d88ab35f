// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/columns.hpp"

#include "reports/rows/analysis_words.hpp"
#include "reports/rows/column_words.hpp"
#include "reports/rows/event.hpp"
#include "reports/rows/formula_row.hpp"
#include "reports/rows/gemm_row.hpp"
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
    {"seed", "", "seed of first weights and batches; runs of one seed are paired", ""},
    {"status", "", "`ok`; `diverged`; `failed: ` and why", ""},
    {"steps", steps, "optimiser steps done, skipped ones too", ""},
    {"tokens", "tokens", "trained on so far", "steps * batch * context"},
    {"final_loss", nats, "`loss` of the last step", ""},
    {"best_loss", nats, "least `loss` of any step", ""},
    {"skipped_steps", steps, "dropped by the loss scaler because a gradient was not finite", ""},
    {"diverged_step", "step", "at which the run was ended: its loss was not finite, or the scaler gave up; else empty",
     ""},
    {"seconds", "s", "wall clock of the emulated steps: says nothing of hardware, and differs between machines", ""},
    {"tokens_per_second", "tokens/s", "of the emulation", "tokens / seconds"},
    {"bytes_params", bytes, "parameters, in the formats of the policy", "sum of elements * bits / 8"},
    {"bytes_grads", bytes, "gradients, and sums over micro-batches that are kept apart", "the same"},
    {"bytes_master", bytes, "master copies of the parameters", "the same"},
    {"bytes_optimizer", bytes, "moments", "the same"},
    {"bytes_activations", bytes, "what the backward pass needs of the forward pass, of one micro-batch", "the same"},
    {"parameters", "weights", "of the model; not in rows of earlier versions", ""},
    {"matmul_formats", "multiply-adds",
     "of each pair of operand formats, in one sample's step: `bf16*bf16:98304;e4m3fn*e5m2:24576`", ""},
    {"low_linears", "linears", "whose operands are of 8 bits or fewer; not in rows of earlier versions", ""},
    {"asked_linears", "linears", "for which the policy asked for that: the others were left out", ""},
    {"stress", "", "how the values of the model were stressed: `outliers=2^11`; empty where they were not", ""},
};

constexpr ColumnWords step_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of first weights and batches", ""},
    {"step", "step", "number of the optimiser step, from 0", ""},
    {"tokens", "tokens", "trained on, this step's too", "(step + 1) * batch * context"},
    {"loss", nats,
     "cross entropy of the policy's logits, computed in fp64; everything that is compared is made from it",
     "mean over tokens of log sum exp(z) - z[target]"},
    {"baseline_loss", nats, "`loss` of the fp32 run of the same seed at this step", ""},
    {"gap", nats, "paired difference", "loss - baseline_loss"},
    {"grad_norm", "nats", "norm of all gradients, unscaled, before clipping", "sqrt(sum g^2)"},
    {"update_norm", "", "how far the stored weights moved", "sqrt(sum (w_after - w_before)^2)"},
    {"lr", "", "learning rate of this step", ""},
    {"loss_scale", "", "factor on the loss in this step's backward pass; 1 without a scaler", ""},
    {"growth_tracker", steps, "without an overflow since the scale last changed, after this step", ""},
    {"skipped", "0 or 1", "1: a gradient was not finite, and the optimiser did nothing", ""},
    {"overflow_site", "", "first site, in the order of execution, whose cast met or made a value that is not finite",
     ""},
    {"underflow", values, "nonzero, and zero after their cast, over all casts of the step", "x != 0 and q = 0"},
    {"overflow", values, "beyond the largest finite value of their format, after scaling", "abs(z) > largest"},
    {"saturated", values, "on the largest finite value after their cast", "abs(q) = largest"},
    {"lost_updates", "weights", "whose update was not zero and changed nothing", "wanted != 0 and w_after = w_before"},
    {"update_eff", share,
     "what moved, projected on what the optimiser asked for; 1: on average nothing is lost; empty in a skipped step",
     "<moved, wanted> / <wanted, wanted>"},
    {"loss_rounded", nats,
     "the policy's own loss, its log-probabilities and their mean rounded as the policy says; not in rows of schema 1",
     ""},
    {"update_stagnation", share, "updates that changed nothing, of those that were not zero", "lost / nonzero updates"},
    {"effective_lr", "", "learning rate with which the weights moved", "lr * update_eff"},
    {"grad_cosine", share,
     "gradients of a sampled step beside those of fp32 with the same weights and batch: the angle",
     "<g, g32> / (|g| |g32|)"},
    {"grad_proj", share, "what is left of fp32's gradient", "<g, g32> / <g32, g32>"},
    {"grad_snr_db", "dB", "fp32's gradient over the difference from it", "20 log10(|g32| / |g - g32|)"},
    {"grad_cosine_least", share, "least cosine of a parameter's gradient", "as grad_cosine"},
    {"grad_least_parameter", "", "whose it is", ""},
    {"moment_stagnation", share, "second moments that stayed as they were though they or their gradient were not zero",
     "unchanged / all"},
    {"first_diverging_site", "",
     "first site of a sampled step, in the order of execution, whose values are far from those of fp32 with the same "
     "weights and batch; empty where none is",
     "|v - v32| > 0.5 |v32|"},
    {"farthest_site", "", "site whose values are farthest from fp32's", ""},
    {"farthest_distance", share, "how far; `inf` where a value is not finite", "|v - v32| / |v32|"},
};

constexpr ColumnWords eval_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of first weights and batches", ""},
    {"step", "step", "before which it was evaluated, on batches that are the same for every policy and seed", ""},
    {"eval_loss", nats, "held-out loss under the policy, computed in fp64 from its logits", "as `loss` of steps.csv"},
    {"eval_loss_fp32", nats, "the same with the master weights and no rounding", ""},
    {"perplexity", "tokens", "number of equally likely tokens with this loss", "exp(eval_loss)"},
    {"entropy_floor", nats, "least loss that any model can reach; known for the synthetic language only",
     "conditional entropy of the generator"},
};

constexpr ColumnWords site_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"policy", "", "name of the policy", ""},
    {"seed", "", "seed of first weights and batches", ""},
    {"step", "step", "sampled step (`--probe-every`)", ""},
    {"site", "", "`site:slot` where values were cast; in a run that rounds nothing every slot has a row", ""},
    {"format", "", "of the cast: q; fp32 where nothing is rounded", ""},
    {"scale_inv_min", "", "least decode scale of the site's casts; 1 without scaling",
     "y = q * scale_inv, z = x / scale_inv"},
    {"scale_inv_max", "", "largest decode scale", ""},
    {"count", values, "cast at this site in this step", ""},
    {"zero_in", values, "zero before the cast, of either sign", "x = 0"},
    {"underflow", values, "nonzero, and zero after the cast", "x != 0 and q = 0"},
    {"to_subnormal", values, "subnormal after the cast: fewer digits", "0 < abs(q) < 2^emin"},
    {"overflow", values, "beyond the largest finite value of the format", "abs(z) > largest"},
    {"saturated", values, "on the largest finite value after the cast", "abs(q) = largest"},
    {"nan_in", values, "NaN before the cast; in no other count but `count`", ""},
    {"inf_in", values, "infinite before the cast; in no other count but `count`", ""},
    {"amax", "", "largest magnitude before the cast; 0 where nothing is finite", "max abs(x)"},
    {"amin_nz", "", "least magnitude but zero before the cast", "min abs(x), x != 0"},
    {"mse", "", "mean square error of the cast", "mean (y - x)^2"},
    {"sqnr_db", "dB", "signal to rounding noise; `inf` where nothing was rounded off",
     "10 log10(sum x^2 / sum (y - x)^2)"},
    {"cosine", share, "of the angle between values before and after", "<x, y> / sqrt(<x, x> <y, y>)"},
    {"proj", share, "what is left of the values, on average; 1: unbiased", "<x, y> / <x, x>"},
    {"subnormal_inexact", values, "on a subnormal code after the cast, and rounded there",
     "0 < abs(q) < 2^emin and y != x"},
    {"overflow_rounded", values, "that rounding to nearest even would send past the largest finite value", ""},
    {"block_flush", "blocks", "of which every value became zero, though some were not; empty without blocks", ""},
    {"dynamic_range", "powers of two", "from the least nonzero magnitude to the largest", "log2(amax) - log2(amin_nz)"},
    {"headroom_bits", "powers of two",
     "from the largest scaled magnitude to the largest finite value; below 0 values are cut",
     "log2(largest / max abs(z))"},
    {"rel_err_mean", share, "mean relative error of the cast, of values that are not zero", "abs(y - x) / abs(x)"},
    {"rel_err_max", share, "largest relative error", "the same"},
    {"bias_rel", share, "mean error towards larger magnitudes", "sum sgn(x) (y - x) / sum abs(x)"},
    {"scale_age", steps, "since a delayed scale changed", ""},
    {"scale_frozen_steps", steps, "in a row that kept a delayed scale because amax was 0, infinite or NaN", ""},
    {"scale_exp_hist", "",
     "decode scales by exponent, `exponent:count` joined by semicolons, besides `zero`, `inf`, `nan`; the byte of an "
     "e8m0 "
     "scale is its exponent + 127; empty without scaling",
     "floor(log2(scale_inv))"},
};

constexpr ColumnWords exponent_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"step", "step", "sampled step that keeps histograms (`--histogram-every`)", ""},
    {"site", "", "`site:slot`, as in sites.csv", ""},
    {"exponent", "", "the bin, over values before scaling: a whole number, or `zero`, `inf`, `nan`",
     "floor(log2 abs(x))"},
    {"count", values, "in this bin; bins that counted nothing have no row", ""},
    {"kind", "", "`number`, `zero`, `inf` or `nan`; not in rows of earlier versions", ""},
    {"floor_log2", "", "`exponent` as a number, empty where `kind` is no number; not in rows of earlier versions",
     "floor(log2 abs(x))"},
};

constexpr ColumnWords hash_words[] = {
    {"run", "", "name of the run", "`policy/seed`"},
    {"step", "step", "number of the optimiser step, from 0", ""},
    {"micro_batch", "", "number of the micro-batch in the step, from 0", ""},
    {"site", "", "`site:slot`, or a parameter's tensor, in the order of execution", ""},
    {"count", values, "in the tensor", ""},
    {"hash", "hexadecimal", "of the bits of all values: equal tensors have equal numbers",
     "sum mod 2^64 of a mix of index and bits"},
};

constexpr ColumnWords summary_words[] = {
    {"policy", "", "name of the policy; `policy@directory` where directories disagree", ""},
    {"seeds", "runs", "of this policy", ""},
    {"loss", nats, "mean over seeds of the mean `loss` of the last W steps", "W = min(50, steps / 4), at least 1"},
    {"gap_mean", nats, "mean over seeds of the mean paired gap of the last W steps", "mean of loss - baseline_loss"},
    {"gap_ci_low", nats, "lower end of the 95 % interval; empty with one seed",
     "gap_mean - t(0.975, seeds - 1) s / sqrt(seeds)"},
    {"gap_ci_high", nats, "upper end", "gap_mean + t(0.975, seeds - 1) s / sqrt(seeds)"},
    {"verdict", "",
     "first that holds: `baseline`; `diverged`; `no_baseline`; `one_seed`; `equivalent` (90 % interval within 0.25 % "
     "of the fp32 loss); `worse` (95 % interval above zero); `undecided`",
     ""},
    {"diverged_step", "step",
     "first of 10 steps in a row whose smoothed gap exceeds 0.1 % of the fp32 loss, the earliest seed: where curves "
     "part, which a small gap does too",
     "abs(ema(gap)) > 0.001 baseline_loss, decay 0.9"},
    {"first_site", "",
     "first sampled site with more than 1 % underflow, a NaN or infinity, or an overflow (with a scale: more than 0.1 "
     "%)",
     ""},
    {"skipped_rate", share, "steps that the loss scaler dropped, of all", ""},
    {"underflow_rate", share, "underflows, of all values in sites.csv", "sum underflow / sum count"},
    {"slowdown", "", "empty: it was the emulator's time, which says nothing of a recipe; the name is kept", ""},
    {"memory_ratio", share, "all bytes of runs.csv over those of fp32", "sum bytes_* / sum bytes_* of fp32"},
    {"steps", steps, "of its shortest run", ""},
    {"margin", nats, "of equivalence", "0.25 % of the fp32 loss, or `--margin`"},
    {"detectable_gap", nats, "that would have been seen in four comparisons of five; empty with one seed",
     "noncentral t at power 0.8, s / sqrt(seeds)"},
    {"forced", "",
     "why the verdict could not have come out otherwise: `one_seed`, `baseline_failed`, `same_losses`, "
     "`nothing_learned`, `wide_interval`; empty: it could",
     ""},
    {"failed_seeds", "runs", "that failed, as in `diverged`", ""},
    {"static_bytes", "bytes/parameter",
     "of parameters, gradients, masters and optimiser state: what stays from step to step", ""},
    {"activation_bytes", "bytes/parameter", "of the activations of one micro-batch and rank", ""},
    {"peak_gpu", "", "whose figures `relative_peak` is made of (`--gpu`)", ""},
    {"relative_peak", share,
     "dense peak of the formats that its matmuls multiply, bf16 = 1: the vendor's figures, not a measurement", ""},
    {"loss_spikes", "%", "spike score of the loss, of the steps", ""},
    {"grad_norm_spikes", "%", "spike score of the gradient norm, of the steps", ""},
    {"update_stagnation", share, "mean over steps", "as in steps.csv"},
    {"update_eff", share, "mean over steps", "as in steps.csv"},
    {"grad_cosine", share, "mean over sampled steps", "as in steps.csv"},
    {"grad_proj", share, "mean over sampled steps", "as in steps.csv"},
    {"stress", "", "as in runs.csv", ""},
    {"sampled_steps", steps, "in which the sites were sampled; of the run with the most", ""},
    {"forward_ranges", "",
     "largest forward value before its cast and largest finite number, for each format; `scaled` where every cast has "
     "a scale: "
     "`fp16:5.29/65504;e4m3fn:scaled`",
     ""},
    {"forward_overflow_format", "",
     "format that a forward value overflowed without a scale; formats with the exponents of fp32 are left out, as they "
     "overflow no "
     "earlier than fp32",
     "abs(x) > largest"},
    {"forward_overflow_site", "", "site and slot of the first of them", ""},
    {"forward_overflow_step", "step", "of the first of them, over all seeds", ""},
};

constexpr std::string_view of_products = "|a||b|";
constexpr ColumnWords gemm_words[] = {
    {"machine", "", "as given: a machine, with `+promote128` and the like, or a rule's name", ""},
    {"format_a", "", "of the operand a, [m, k]", ""},
    {"format_b", "", "of the operand b, [k, n]", ""},
    {"output", "", "format of the output, whose ulp is counted in", ""},
    {"distribution", "", "of the operands", ""},
    {"scaling", "", "of the operands: `none`, or per what", ""},
    {"scale", "", "factor on what the distribution draws", ""},
    {"seed", "", "of the draw", ""},
    {"m", "rows", "of a and of the output", ""},
    {"n", "columns", "of b and of the output", ""},
    {"k", "terms", "of each sum", ""},
    {"outputs", values, "finite ones, those of `saturated` too", ""},
    {"nonfinite", values, "infinities and NaN; no other figure includes them", ""},
    {"max_rel", share, "largest relative error; exact zeros are left out", "abs(e) / abs(exact), e = out - exact"},
    {"mean_rel", share, "mean relative error", "the same"},
    {"rms_rel", share, "root of the mean square", "the same"},
    {"max_ulp", "ulp", "largest error in units in the last place at the exact value", "abs(e) / ulp(exact)"},
    {"mean_ulp", "ulp", "mean", "the same"},
    {"sqnr_db", "dB", "signal to error; `inf` without error", "10 log10(sum exact^2 / sum e^2)"},
    {"max_error", of_products,
     "largest error over the sum of the magnitudes of an output's products: what the bounds bound",
     "abs(e) / sum abs(a b)"},
    {"rms_error", of_products, "root of the mean square", "the same"},
    {"bias", of_products, "mean error", "mean of e / sum abs(a b)"},
    {"drift", of_products, "mean error towards the exact sign: negative where sums come out too small",
     "mean of e sign(exact) / sum abs(a b)"},
    {"unit", of_products, "the machine's certain bound per product, where nothing underflows", ""},
    {"bound", of_products, "certain bound on max_error, known before; empty where none is known",
     "k unit, plus the underflow of the operands"},
    {"probable_bound", of_products, "mean of what is cut off, and lambda times the deviation of all that is rounded",
     ""},
    {"lambda", "deviations", "an output exceeds probable_bound with a probability below 2 exp(-lambda^2 / 2)", ""},
    {"first", "", "out[0,0]", ""},
    {"first_exact", "", "exact[0,0], rounded once to fp64", ""},
    {"operand_sqnr_db", "dB", "product of the rounded operands against that of the drawn ones", ""},
    {"evidence", "", "how the machine's row is known", ""},
    {"beyond_bound", values, "whose error exceeds their own certain bound: 0 where the model is right", ""},
    {"beyond_probable", values, "whose error exceeds their own probable bound", ""},
    {"via", "", "how the product was made of narrower ones (`--via`); empty, as the next columns, without", ""},
    {"digit_bits", "bits", "of a digit of Ozaki's scheme, of an integer of his second one, or of a part", ""},
    {"slices", "", "digits, residues or parts of each number", ""},
    {"products", "", "narrow products on the machine", ""},
    {"inexact_products", values,
     "elements of the digit products that are not the integers they should be: 0 where the "
     "exactness rule holds",
     ""},
    {"combine", "", "how digit products are summed: `fp64`, one rounding each, or `exact`, one at the end", ""},
    {"fp64_error", of_products, "max_error of a chain of fp64 fma on the same data", ""},
    {"saturated", values,
     "finite outputs on whose way a sum or the output overflowed, which a format without Inf and NaN or an inward "
     "rounding "
     "hides; no other figure includes them",
     ""},
    {"plain_error", of_products,
     "of `--via`: max_error of a chain of fma in the format of the output, on the same data", ""},
    {"plain_max_ulp", "ulp", "of `--via`: max_ulp of that chain", "as max_ulp"},
    {"plain_mean_ulp", "ulp", "of `--via`: mean_ulp of that chain", "as mean_ulp"},
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
    {RunRow::file, "A row is a run: one policy, one seed.", run_words},
    {StepRow::file, "A row is an optimiser step of a run.", step_words},
    {EvalRow::file, "A row is a held-out evaluation of a run.", eval_words},
    {SiteRow::file,
     "A row counts the casts of a site at a sampled step. x is a value before its cast. The cast rounds z = x / "
     "scale_inv to q, and "
     "y = q * scale_inv is the result. If a matrix unit rounds its own outputs, only y is known: `amax` and `amin_nz` "
     "are those of "
     "y, and the columns that compare x with y are empty.",
     site_words},
    {ExponentRow::file, "A row is a bin of the histogram of exponents at a site and sampled step.", exponent_words},
    {HashRow::file, "A row is a tensor that left a site (`macheps train --hash-sites`).", hash_words},
    {SummaryRow::file, "A row is a policy against fp32 (`macheps report` writes it).", summary_words},
    {GemmRow::file, "A row is a matrix product on a machine (`macheps gemm`). Sums are over an output's k products.",
     gemm_words},
    {SolveRow::file, "A row is a linear system, factored in one format and solved in one way (`macheps solve`).",
     solve_words},
    {FormulaRow::file, "A row is a formula in one format (`macheps eval`).", formula_words},
    {FormulaPointRow::file, "A row is one input of a formula (`macheps eval --points-out`).", formula_point_words},
    {SumRow::file, "A row is a sum by one method in one format (`macheps sum`).", sum_words},
    {SolveStepRow::file, "A row is one x of a refinement (`macheps solve --steps`).", solve_step_words},
};

/// Escapes bars, which would end a cell of a table.
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
        "Made by `macheps report --columns` from the row types of the program; a test keeps this page equal to it.\n\n"
        "A cell that was not measured is empty; `nan`, `inf` and `-inf` are measurements. New columns are added at the "
        "end of a file, and readers go by a\ncolumn's name: files of earlier versions lack the last ones. A unit of 1 "
        "is a share or a ratio. Losses are in nats: divide by ln 2 for bits.\n";
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
