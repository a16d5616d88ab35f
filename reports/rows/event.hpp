// SPDX-License-Identifier: Apache-2.0
// Row types: the schema that the trainer writes and the report reads. The fields of a row are in the order of its
// columns.
//
// A cell that was not measured is std::nullopt and prints as an empty cell. NaN is a measurement and prints as `nan`.
// Values that training computed in fp32 are float, so that they print with few digits. Statistics are double. bool
// prints as 0 or 1.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace macheps::reports {

/// Version of the schema, written to manifest.json as "schema". It increases when a column changes its meaning, or when
/// a column is added whose cells cannot be empty (see since()). It does not increase when an optional column is added.
inline constexpr int schema_version = 2;

/// The version of the schema in which a column was added.
struct Since {
    int schema = 1;
};
constexpr Since since(int schema) { return {schema}; }

template <class Value>
inline constexpr bool is_optional = false;
template <class Value>
inline constexpr bool is_optional<std::optional<Value>> = true;

/// One column of `Row`: its name in the header and its field. New columns are added at the end of a row type, so a file
/// of an older version lacks them. A file may lack a column if its field is a std::optional, which then stays empty. A
/// file may also lack a column that was added after schema 1 (see since()). A plain field then keeps its value in
/// Row{}. A file that lacks any other column does not have this row type.
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

/// Calls use(column) for each column of `Row`, in the order of the file. Row::columns(use) calls `use` once with all
/// columns. The columns are not a tuple, because every source file that includes a row type with a tuple of forty
/// columns takes a tenth of a second longer to compile.
template <class Row, class Use>
constexpr void for_each_column(const Use& use) {
    Row::columns([&](const auto&... columns) { (use(columns), ...); });
}
template <class Row>
inline constexpr std::size_t column_count = Row::columns([](const auto&... columns) { return sizeof...(columns); });

/// A histogram bin: an integer floor(log2|x|), or one of the words zero, inf, nan.
struct ExponentBin {
    /// Maximum of |exponent|. The exponents of all formats are smaller. Files with larger exponents are refused.
    static constexpr std::int32_t largest = 2000;
    enum class Kind : std::uint8_t { number, zero, inf, nan };
    Kind kind = Kind::number;
    std::int32_t exponent = 0;  ///< used only for Kind::number

    bool operator==(const ExponentBin&) const = default;
};

/// A training run of one policy with one seed. A failed run also has a row. `seconds` is the time of the emulation on
/// the computer that ran it, and does not indicate the time on real hardware.
struct RunRow {
    std::string run{}, policy{};
    std::int64_t seed = 0;
    std::string status = "ok";  ///< `ok`, `diverged`, or `failed: ` and the text of an Error
    std::int64_t steps = 0, tokens = 0;
    std::optional<double> final_loss{}, best_loss{};  ///< last and smallest StepRow::loss
    std::int64_t skipped_steps = 0;
    std::optional<std::int64_t> diverged_step{};
    double seconds = 0, tokens_per_second = 0;
    std::int64_t bytes_params = 0, bytes_grads = 0, bytes_master = 0, bytes_optimizer = 0, bytes_activations = 0;
    std::optional<std::int64_t> parameters{};
    /// For each pair of operand formats of matmuls, the number of multiply-adds of one sample in a step:
    /// `bf16*bf16:98304;e4m3fn*e5m2:24576`. The granularity follows the format of an operand with block scales:
    /// `e4m3fn/mx32`.
    std::optional<std::string> matmul_formats{};
    /// Number of linears whose operands have 8 bits or fewer, and number of linears for which the policy asks for 8
    /// bits or fewer. The difference is the number of linears that were left out.
    std::optional<std::int64_t> low_linears{}, asked_linears{};
    std::optional<std::string> stress{};  ///< "outliers=2^11"; empty without a stress (`--stress`)

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

/// An optimiser step. `loss` is computed in fp64 from the policy's logits, and all comparisons use it. `loss_rounded`
/// is the policy's own loss: its log-probabilities and their mean are rounded as the policy says. Rows of schema 1 do
/// not have `loss_rounded`. Their `loss` is the policy's own loss, an fp32 number. `loss_scale` is the scale used in
/// this step. `gap` is loss - baseline_loss, and is absent without a baseline.
struct StepRow {
    std::string run{}, policy{};
    std::int64_t seed = 0, step = 0, tokens = 0;
    double loss = 0;
    std::optional<double> baseline_loss{}, gap{};
    float grad_norm = 0, update_norm = 0, lr = 0, loss_scale = 1;
    std::int64_t growth_tracker = 0;
    bool skipped = false;
    std::string overflow_site{};  ///< first site whose cast received or produced Inf or NaN; empty if none
    std::uint64_t underflow = 0, overflow = 0, saturated = 0, lost_updates = 0;
    std::optional<double> update_eff{};  ///< of weights: <change, wanted change> / |wanted change|^2; absent if skipped
    std::optional<float> loss_rounded{};
    std::optional<double> update_stagnation{};  ///< share of nonzero updates that changed nothing
    std::optional<double> effective_lr{};       ///< lr * update_eff: the rate with which the weights moved
    /// At sampled steps, compares the gradients g with the gradients g32 of an fp32 model that has the same weights and
    /// batch: cosine <g, g32> / (|g| |g32|), projection <g, g32> / <g32, g32>, signal-to-noise ratio
    /// 20 log10(|g32| / |g - g32|). The last two fields are the smallest cosine of a single parameter's gradient and
    /// the name of that parameter.
    std::optional<double> grad_cosine{}, grad_proj{}, grad_snr_db{}, grad_cosine_least{};
    std::optional<std::string> grad_least_parameter{};
    /// Number of second moments that the step did not change, although the moment or its gradient was not 0. Divided by
    /// the number of all second moments.
    std::optional<double> moment_stagnation{};
    /// At sampled steps, compares the values v at each slot with the values v32 of an fp32 model that has the same
    /// weights and batch. The first field is the first slot, in the order of execution, with |v - v32| > |v32| / 2
    /// (empty if there is none). The others are the slot with the largest ratio |v - v32| / |v32|, and this ratio.
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

/// A held-out evaluation, on the same batches for every policy and seed.
struct EvalRow {
    std::string run{}, policy{};
    std::int64_t seed = 0, step = 0;
    double eval_loss = 0;                    ///< held-out loss under the policy, computed in fp64
    std::optional<double> eval_loss_fp32{};  ///< held-out loss of the master weights, evaluated in fp32
    double perplexity = 0;                   ///< exp(eval_loss)
    std::optional<double> entropy_floor{};   ///< known only for the synthetic language

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

/// The casts at one site in one sampled step: the counts of core/tally.hpp, and figures about the accuracy of the
/// casts.
struct SiteRow {
    std::string run{}, policy{};
    std::int64_t seed = 0, step = 0;
    std::string site{}, format{};
    float scale_inv_min = 1, scale_inv_max = 1;
    std::uint64_t count = 0, zero_in = 0, underflow = 0, to_subnormal = 0, overflow = 0, saturated = 0, nan_in = 0,
                  inf_in = 0;
    float amax = 0, amin_nz = 0;
    std::optional<double> mse{}, sqnr_db{}, cosine{}, proj{};
    /// The fields below leave out casts that report only counts, without their values. x is a value before the cast, z
    /// is x after scaling and before rounding, and y is the decoded result.
    std::optional<std::uint64_t> subnormal_inexact{};  ///< values with a subnormal code and y != x
    std::optional<std::uint64_t> overflow_rounded{};   ///< values z that nearest-even rounding moves beyond the range
    std::optional<std::uint64_t> block_flush{};  ///< blocks with some x != 0 and all y == 0; absent without blocks
    std::optional<double> dynamic_range{};       ///< log2(amax) - log2(amin_nz)
    std::optional<double> headroom_bits{};       ///< log2(largest / max |z|); below 0, values overflow
    std::optional<double> rel_err_mean{}, rel_err_max{};  ///< |y - x| / |x| over x != 0
    std::optional<double> bias_rel{};                     ///< sum of sgn(x) (y - x) over sum of |x|
    /// Delayed scaling: number of micro-batches since the scale last changed, and number of most recent consecutive
    /// micro-batches that kept the scale because amax was 0, Inf or NaN.
    std::optional<std::int64_t> scale_age{}, scale_frozen_steps{};
    /// Histogram of the decode scales: the number of groups for each floor(log2(scale)), as in `-7:12;-6:52`. Bins may
    /// also be `zero`, `inf` and `nan`. Absent without scales.
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

/// A bin of the exponent histogram of a site's values before scaling. Empty bins have no row. `kind` and `floor_log2`
/// repeat `exponent` as two columns, so that the column `floor_log2` contains only numbers. Rows of earlier versions
/// lack these two columns.
struct ExponentRow {
    std::string run{};
    std::int64_t step = 0;
    std::string site{};
    ExponentBin exponent{};
    std::uint64_t count = 0;
    std::optional<ExponentBin::Kind> kind{};
    std::optional<std::int64_t> floor_log2{};  ///< empty if `kind` is not `number`

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

/// A hash of the values that a site produced, or of a parameter's tensor after the step. If two runs differ, the first
/// line in which their files differ names the operation at which the difference begins.
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

/// Row types whose files grow while a run trains. A checkpoint records the length of each of these files, in this
/// order, and a resumed run continues them. A new type therefore has to be added at the end.
using GrowingRows = std::tuple<StepRow, EvalRow, SiteRow, ExponentRow>;
/// Row types of all files that training writes. hashes.csv is written only on request, and a resumed run does not
/// continue it. runs.csv is last, because a row of runs.csv means that the other rows of the run are complete.
using TrainingRows = decltype(std::tuple_cat(GrowingRows{}, std::tuple<HashRow, RunRow>{}));

/// Returns the file names of a list of row types.
template <class... Row>
constexpr std::array<std::string_view, sizeof...(Row)> files_of(std::type_identity<std::tuple<Row...>>) {
    return {Row::file...};
}

/// The comparison of a policy with the policy named fp32. summarise() in divergence.hpp creates these rows. `slowdown`
/// is always empty. Earlier versions wrote a ratio of emulation times, which does not characterise a recipe and differs
/// between computers.
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
    std::optional<std::int64_t> steps{};     ///< steps of the shortest run
    std::optional<double> margin{};          ///< margin of equivalence, in nats
    std::optional<double> detectable_gap{};  ///< gap in nats that is detected with probability 0.8; empty with one seed
    std::optional<std::string> forced{};     ///< word of the reason that limited the verdict, or empty
    std::optional<std::int64_t> failed_seeds{};
    /// Bytes per parameter: of the data that are kept from step to step, and of the activations.
    std::optional<double> static_bytes{}, activation_bytes{};
    std::optional<std::string> peak_gpu{};                    ///< GPU whose peak speeds give `relative_peak`
    std::optional<double> relative_peak{};                    ///< dense peak speed of its matmuls, relative to bf16
    std::optional<double> loss_spikes{}, grad_norm_spikes{};  ///< spike scores, in percent of the steps
    std::optional<double> update_stagnation{}, update_eff{};  ///< means over steps
    std::optional<double> grad_cosine{}, grad_proj{};         ///< means over sampled steps
    std::optional<std::string> stress{};                      ///< as in RunRow
    std::optional<std::int64_t> sampled_steps{};              ///< maximum number over the runs
    /// For each format, the largest forward value that was cast to it and the largest number of the format, or `scaled`
    /// if every cast has a scale: `fp16:5.29/65504;e4m3fn:scaled`.
    std::optional<std::string> forward_ranges{};
    /// The first overflow of a forward value that was cast, without a scale, to a format with a narrower range than
    /// fp32.
    std::optional<std::string> forward_overflow_format{}, forward_overflow_site{};
    std::optional<std::int64_t> forward_overflow_step{};
    std::optional<std::string> failures{};  ///< reasons of the failed runs, see failed_runs.hpp; empty if none failed

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
                   column("forward_overflow_step", &SummaryRow::forward_overflow_step),
                   column("failures", &SummaryRow::failures));
    }
};

}  // namespace macheps::reports
