// SPDX-License-Identifier: Apache-2.0
// Row types: the schema that the trainer writes and the report reads. A row's fields stand in the order of its columns.
//
// A cell that was not measured is std::nullopt and prints empty; NaN is a measurement and prints `nan`. Values that the
// training computed in fp32 are float, so that they print short; statistics are double. bool prints 0 or 1.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace macheps::reports {

/// Written to manifest.json as "schema". Raised when a column changes its meaning, and when a column is added that has no
/// empty cell (`since`); not when one of optional values is added.
inline constexpr int schema_version = 2;

/// The schema with which a column came.
struct Since {
    int schema = 1;
};
constexpr Since since(int schema) { return {schema}; }

template <class Value>
inline constexpr bool is_optional = false;
template <class Value>
inline constexpr bool is_optional<std::optional<Value>> = true;

/// One column of `Row`: its name in the header and its field. New columns are added at the end of a row type, so that a
/// file of an older version lacks them: a std::optional field is then empty, and a plain one that came `since` a later
/// schema keeps the value that it has in Row{}. A file that lacks any other column is no file of that row type.
template <class Row, class Value>
struct Column {
    std::string_view name;
    Value Row::*field;
    Since came{};

    constexpr bool may_be_absent() const { return is_optional<Value> || came.schema > 1; }
};

template <class Row, class Value>
constexpr Column<Row, Value> column(std::string_view name, Value Row::*field, Since came = {}) {
    return {name, field, came};
}

/// Calls use(column) for each column of `Row`, in their order. Row::columns(use) calls it with all at once: a function, as the
/// compiler needs a tenth of a second for a tuple of forty columns wherever the row is declared.
template <class Row, class Use>
constexpr void for_each_column(const Use& use) {
    Row::columns([&](const auto&... columns) { (use(columns), ...); });
}
template <class Row>
inline constexpr std::size_t column_count = Row::columns([](const auto&... columns) { return sizeof...(columns); });

/// A histogram bin: an integer floor(log2|x|), or one of the words zero, inf, nan.
struct ExponentBin {
    /// No number of any format has a larger one, or one below its negative; files that name one are refused.
    static constexpr std::int32_t largest = 2000;
    enum class Kind : std::uint8_t { number, zero, inf, nan };
    Kind kind = Kind::number;
    std::int32_t exponent = 0;  ///< read for Kind::number only

    bool operator==(const ExponentBin&) const = default;
};

/// A run: one policy, one seed. A failed run still has a row. `seconds` is the time of the emulation on that computer, and
/// nothing that hardware would take.
struct RunRow {
    std::string run{}, policy{};
    std::int64_t seed = 0;
    std::string status = "ok";  ///< ok, diverged, `failed: why` (an Error)
    std::int64_t steps = 0, tokens = 0;
    std::optional<double> final_loss{}, best_loss{};  ///< of StepRow::loss
    std::int64_t skipped_steps = 0;
    std::optional<std::int64_t> diverged_step{};
    double seconds = 0, tokens_per_second = 0;
    std::int64_t bytes_params = 0, bytes_grads = 0, bytes_master = 0, bytes_optimizer = 0, bytes_activations = 0;
    std::optional<std::int64_t> parameters{};
    /// The formats of both operands of every matmul, with the multiply-adds of each pair in one sample's step:
    /// `bf16*bf16:98304;e4m3fn*e5m2:24576`.
    std::optional<std::string> matmul_formats{};
    /// Linears whose operands are of 8 bits or fewer, and those for which the policy asked: the others were left out.
    std::optional<std::int64_t> low_linears{}, asked_linears{};
    std::optional<std::string> stress{};  ///< "outliers=2^11"; empty where the values were left as they are

    bool operator==(const RunRow&) const = default;
    static constexpr std::string_view file = "runs.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &RunRow::run), column("policy", &RunRow::policy), column("seed", &RunRow::seed),
                   column("status", &RunRow::status), column("steps", &RunRow::steps),
                   column("tokens", &RunRow::tokens), column("final_loss", &RunRow::final_loss),
                   column("best_loss", &RunRow::best_loss), column("skipped_steps", &RunRow::skipped_steps),
                   column("diverged_step", &RunRow::diverged_step), column("seconds", &RunRow::seconds),
                   column("tokens_per_second", &RunRow::tokens_per_second),
                   column("bytes_params", &RunRow::bytes_params), column("bytes_grads", &RunRow::bytes_grads),
                   column("bytes_master", &RunRow::bytes_master), column("bytes_optimizer", &RunRow::bytes_optimizer),
                   column("bytes_activations", &RunRow::bytes_activations), column("parameters", &RunRow::parameters),
                   column("matmul_formats", &RunRow::matmul_formats), column("low_linears", &RunRow::low_linears),
                   column("asked_linears", &RunRow::asked_linears), column("stress", &RunRow::stress));
    }
};

/// An optimiser step. `loss` is computed in fp64 from the policy's logits, and everything that is compared is computed
/// from it; `loss_rounded` is the policy's own, its log-probabilities and their mean rounded as the policy says. Rows of
/// schema 1 have no `loss_rounded`: it stands there as `loss`, which was an fp32 number. `loss_scale` is the one used in
/// this step; `gap` = loss - baseline_loss, absent without a baseline.
struct StepRow {
    std::string run{}, policy{};
    std::int64_t seed = 0, step = 0, tokens = 0;
    double loss = 0;
    std::optional<double> baseline_loss{}, gap{};
    float grad_norm = 0, update_norm = 0, lr = 0, loss_scale = 1;
    std::int64_t growth_tracker = 0;
    bool skipped = false;
    std::string overflow_site{};  ///< the first site whose gradients were not finite; empty when none
    std::uint64_t underflow = 0, overflow = 0, saturated = 0, lost_updates = 0;
    std::optional<double> update_eff{};  ///< <moved, wanted> / <wanted, wanted>; absent in a skipped step
    std::optional<float> loss_rounded{};
    std::optional<double> update_stagnation{};  ///< of the updates that were not zero, those that changed nothing
    std::optional<double> effective_lr{};       ///< lr * update_eff: with which the weights moved
    /// The gradients of the step against those of an fp32 model with the same weights and batch, at sampled steps:
    /// <g, g32> / (|g| |g32|), <g, g32> / <g32, g32>, 20 log10(|g32| / |g - g32|); then the least cosine of a parameter's
    /// gradient, and whose it is.
    std::optional<double> grad_cosine{}, grad_proj{}, grad_snr_db{}, grad_cosine_least{};
    std::optional<std::string> grad_least_parameter{};
    /// Of the second moments, those that the step left as they were though they or their gradient were not 0.
    std::optional<double> moment_stagnation{};
    /// At sampled steps, the values v of sites beside those of that fp32 model: the first slot with |v - v32| > |v32| / 2,
    /// in the order of execution, empty where none is; the slot whose values are farthest, and |v - v32| / |v32| there.
    std::optional<std::string> first_diverging_site{}, farthest_site{};
    std::optional<double> farthest_distance{};

    bool operator==(const StepRow&) const = default;
    static constexpr std::string_view file = "steps.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(
            column("run", &StepRow::run), column("policy", &StepRow::policy), column("seed", &StepRow::seed),
            column("step", &StepRow::step), column("tokens", &StepRow::tokens), column("loss", &StepRow::loss),
            column("baseline_loss", &StepRow::baseline_loss), column("gap", &StepRow::gap),
            column("grad_norm", &StepRow::grad_norm), column("update_norm", &StepRow::update_norm),
            column("lr", &StepRow::lr), column("loss_scale", &StepRow::loss_scale),
            column("growth_tracker", &StepRow::growth_tracker), column("skipped", &StepRow::skipped),
            column("overflow_site", &StepRow::overflow_site), column("underflow", &StepRow::underflow),
            column("overflow", &StepRow::overflow), column("saturated", &StepRow::saturated),
            column("lost_updates", &StepRow::lost_updates), column("update_eff", &StepRow::update_eff),
            column("loss_rounded", &StepRow::loss_rounded), column("update_stagnation", &StepRow::update_stagnation),
            column("effective_lr", &StepRow::effective_lr), column("grad_cosine", &StepRow::grad_cosine),
            column("grad_proj", &StepRow::grad_proj), column("grad_snr_db", &StepRow::grad_snr_db),
            column("grad_cosine_least", &StepRow::grad_cosine_least),
            column("grad_least_parameter", &StepRow::grad_least_parameter),
            column("moment_stagnation", &StepRow::moment_stagnation),
            column("first_diverging_site", &StepRow::first_diverging_site),
            column("farthest_site", &StepRow::farthest_site), column("farthest_distance", &StepRow::farthest_distance));
    }
};

/// A held-out evaluation. The same batches for every policy and seed.
struct EvalRow {
    std::string run{}, policy{};
    std::int64_t seed = 0, step = 0;
    double eval_loss = 0;                    ///< under the policy; in fp64 from the logits, as StepRow::loss
    std::optional<double> eval_loss_fp32{};  ///< master weights, evaluated in fp32; the same
    double perplexity = 0;                   ///< of eval_loss
    std::optional<double> entropy_floor{};   ///< known for the synthetic language only

    bool operator==(const EvalRow&) const = default;
    static constexpr std::string_view file = "evals.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &EvalRow::run), column("policy", &EvalRow::policy), column("seed", &EvalRow::seed),
                   column("step", &EvalRow::step), column("eval_loss", &EvalRow::eval_loss),
                   column("eval_loss_fp32", &EvalRow::eval_loss_fp32), column("perplexity", &EvalRow::perplexity),
                   column("entropy_floor", &EvalRow::entropy_floor));
    }
};

/// A site at a sampled step: the counts of core/tally.hpp over the step's casts there, and the fidelity of the cast.
struct SiteRow {
    std::string run{}, policy{};
    std::int64_t seed = 0, step = 0;
    std::string site{}, format{};
    float scale_inv_min = 1, scale_inv_max = 1;
    std::uint64_t count = 0, zero_in = 0, underflow = 0, to_subnormal = 0, overflow = 0, saturated = 0, nan_in = 0,
                  inf_in = 0;
    float amax = 0, amin_nz = 0;
    std::optional<double> mse{}, sqnr_db{}, cosine{}, proj{};
    /// Of the casts whose values were read. y is the value that a code stands for, z the scaled x before rounding.
    std::optional<std::uint64_t> subnormal_inexact{};  ///< landed on a subnormal code, and y != x
    std::optional<std::uint64_t> overflow_rounded{};  ///< |z| that rounding to nearest even would send past the largest
    std::optional<std::uint64_t> block_flush{};       ///< blocks with some x != 0 and all y == 0; absent without blocks
    std::optional<double> dynamic_range{};            ///< log2(amax) - log2(amin_nz)
    std::optional<double> headroom_bits{};            ///< log2(largest / max |z|); below 0 the largest values are cut
    std::optional<double> rel_err_mean{}, rel_err_max{};  ///< |y - x| / |x| over x != 0
    std::optional<double> bias_rel{};                     ///< sum of sgn(x) (y - x) over sum of |x|
    /// Delayed scaling: steps since the scale changed, and steps in a row that kept it because amax was 0, Inf or NaN.
    std::optional<std::int64_t> scale_age{}, scale_frozen_steps{};
    /// Groups by floor(log2 of their decode scale), `-7:12;-6:52`, with `zero`, `inf` and `nan`; absent without scales.
    std::optional<std::string> scale_exp_hist{};

    bool operator==(const SiteRow&) const = default;
    static constexpr std::string_view file = "sites.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &SiteRow::run), column("policy", &SiteRow::policy), column("seed", &SiteRow::seed),
                   column("step", &SiteRow::step), column("site", &SiteRow::site), column("format", &SiteRow::format),
                   column("scale_inv_min", &SiteRow::scale_inv_min), column("scale_inv_max", &SiteRow::scale_inv_max),
                   column("count", &SiteRow::count), column("zero_in", &SiteRow::zero_in),
                   column("underflow", &SiteRow::underflow), column("to_subnormal", &SiteRow::to_subnormal),
                   column("overflow", &SiteRow::overflow), column("saturated", &SiteRow::saturated),
                   column("nan_in", &SiteRow::nan_in), column("inf_in", &SiteRow::inf_in),
                   column("amax", &SiteRow::amax), column("amin_nz", &SiteRow::amin_nz), column("mse", &SiteRow::mse),
                   column("sqnr_db", &SiteRow::sqnr_db), column("cosine", &SiteRow::cosine),
                   column("proj", &SiteRow::proj), column("subnormal_inexact", &SiteRow::subnormal_inexact),
                   column("overflow_rounded", &SiteRow::overflow_rounded), column("block_flush", &SiteRow::block_flush),
                   column("dynamic_range", &SiteRow::dynamic_range), column("headroom_bits", &SiteRow::headroom_bits),
                   column("rel_err_mean", &SiteRow::rel_err_mean), column("rel_err_max", &SiteRow::rel_err_max),
                   column("bias_rel", &SiteRow::bias_rel), column("scale_age", &SiteRow::scale_age),
                   column("scale_frozen_steps", &SiteRow::scale_frozen_steps),
                   column("scale_exp_hist", &SiteRow::scale_exp_hist));
    }
};

/// A bin of a site's exponent histogram, over x before scaling. Bins that counted nothing have no row. `kind` and
/// `floor_log2` say what `exponent` says, a column each, so that a program reads numbers where numbers stand; rows that an
/// earlier version wrote lack them.
struct ExponentRow {
    std::string run{};
    std::int64_t step = 0;
    std::string site{};
    ExponentBin exponent{};
    std::uint64_t count = 0;
    std::optional<ExponentBin::Kind> kind{};
    std::optional<std::int64_t> floor_log2{};  ///< empty where `kind` is no number

    bool operator==(const ExponentRow&) const = default;
    static constexpr std::string_view file = "exponents.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &ExponentRow::run), column("step", &ExponentRow::step),
                   column("site", &ExponentRow::site), column("exponent", &ExponentRow::exponent),
                   column("count", &ExponentRow::count), column("kind", &ExponentRow::kind),
                   column("floor_log2", &ExponentRow::floor_log2));
    }
};

/// The bits that left a site, or that a parameter's tensors had after the step, as one number: where two runs differ,
/// the first line in which these files do names the operation.
struct HashRow {
    std::string run{};
    std::int64_t step = 0, micro_batch = 0;
    std::string site{};
    std::uint64_t count = 0;
    std::string hash{};  ///< 16 hexadecimal digits

    bool operator==(const HashRow&) const = default;
    static constexpr std::string_view file = "hashes.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("run", &HashRow::run), column("step", &HashRow::step),
                   column("micro_batch", &HashRow::micro_batch), column("site", &HashRow::site),
                   column("count", &HashRow::count), column("hash", &HashRow::hash));
    }
};

/// Rows whose files grow while a run trains. A checkpoint marks where each of these files ended, in this order, and a
/// resumed run goes on with them: a new type stands last.
using GrowingRows = std::tuple<StepRow, EvalRow, SiteRow, ExponentRow>;
/// Rows of all files that training writes. hashes.csv is written where it was asked for, and never continued. runs.csv
/// stands last: one of its rows says that the rows of that run are complete.
using TrainingRows = decltype(std::tuple_cat(GrowingRows{}, std::tuple<HashRow, RunRow>{}));

/// The names of the files of a list of row types.
template <class... Row>
constexpr std::array<std::string_view, sizeof...(Row)> files_of(std::type_identity<std::tuple<Row...>>) {
    return {Row::file...};
}

/// A policy against the policy named fp32; divergence.hpp makes these. `slowdown` has an empty cell: a ratio of times of
/// the emulation says nothing of a recipe, and every cell here is the same on every machine.
struct SummaryRow {
    std::string policy{};
    std::int64_t seeds = 0;
    double loss = 0;
    std::optional<double> gap_mean{}, gap_ci_low{}, gap_ci_high{};
    std::string verdict{};
    std::optional<std::int64_t> diverged_step{};
    std::string first_site{};
    double skipped_rate = 0;
    std::optional<double> underflow_rate{}, slowdown{}, memory_ratio{};
    std::optional<std::int64_t> steps{};     ///< of its shortest run
    std::optional<double> margin{};          ///< of equivalence, in nats
    std::optional<double> detectable_gap{};  ///< nats: seen in four comparisons of five; absent with one seed
    std::optional<std::string> forced{};     ///< why the verdict could not have come out otherwise; empty: it could
    std::optional<std::int64_t> failed_seeds{};
    std::optional<double> static_bytes{},
        activation_bytes{};                 ///< a parameter; what lives from step to step, and the rest
    std::optional<std::string> peak_gpu{};  ///< whose figures `relative_peak` is made of
    std::optional<double> relative_peak{};  ///< dense peak of its matmuls' formats over bf16's
    std::optional<double> loss_spikes{}, grad_norm_spikes{};  ///< spike scores, in percent of the steps
    std::optional<double> update_stagnation{}, update_eff{};  ///< means over steps
    std::optional<double> grad_cosine{}, grad_proj{};         ///< means over sampled steps
    std::optional<std::string> stress{};                      ///< as of RunRow
    std::optional<std::int64_t> sampled_steps{};              ///< in the run with the most sampled steps
    /// The largest forward values and the largest numbers of the formats they were cast to: `fp16:5.29/65504;e4m3fn:scaled`.
    std::optional<std::string> forward_ranges{};
    /// The first forward value that overflowed a narrow format (narrower range than fp32) without a scale.
    std::optional<std::string> forward_overflow_format{}, forward_overflow_site{};
    std::optional<std::int64_t> forward_overflow_step{};

    bool operator==(const SummaryRow&) const = default;
    static constexpr std::string_view file = "summary.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("policy", &SummaryRow::policy), column("seeds", &SummaryRow::seeds),
                   column("loss", &SummaryRow::loss), column("gap_mean", &SummaryRow::gap_mean),
                   column("gap_ci_low", &SummaryRow::gap_ci_low), column("gap_ci_high", &SummaryRow::gap_ci_high),
                   column("verdict", &SummaryRow::verdict), column("diverged_step", &SummaryRow::diverged_step),
                   column("first_site", &SummaryRow::first_site), column("skipped_rate", &SummaryRow::skipped_rate),
                   column("underflow_rate", &SummaryRow::underflow_rate), column("slowdown", &SummaryRow::slowdown),
                   column("memory_ratio", &SummaryRow::memory_ratio), column("steps", &SummaryRow::steps),
                   column("margin", &SummaryRow::margin), column("detectable_gap", &SummaryRow::detectable_gap),
                   column("forced", &SummaryRow::forced), column("failed_seeds", &SummaryRow::failed_seeds),
                   column("static_bytes", &SummaryRow::static_bytes),
                   column("activation_bytes", &SummaryRow::activation_bytes), column("peak_gpu", &SummaryRow::peak_gpu),
                   column("relative_peak", &SummaryRow::relative_peak), column("loss_spikes", &SummaryRow::loss_spikes),
                   column("grad_norm_spikes", &SummaryRow::grad_norm_spikes),
                   column("update_stagnation", &SummaryRow::update_stagnation),
                   column("update_eff", &SummaryRow::update_eff), column("grad_cosine", &SummaryRow::grad_cosine),
                   column("grad_proj", &SummaryRow::grad_proj), column("stress", &SummaryRow::stress),
                   column("sampled_steps", &SummaryRow::sampled_steps),
                   column("forward_ranges", &SummaryRow::forward_ranges),
                   column("forward_overflow_format", &SummaryRow::forward_overflow_format),
                   column("forward_overflow_site", &SummaryRow::forward_overflow_site),
                   column("forward_overflow_step", &SummaryRow::forward_overflow_step));
    }
};

}  // namespace macheps::reports
