// SPDX-License-Identifier: Apache-2.0
#include "reports/pages/page_data.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/pages/page_parts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace macheps::reports {

namespace {

/// Means over buckets of equally many steps. The mean is NaN for a bucket without a finite value.
class Bucketed {
  public:
    explicit Bucketed(std::size_t bucket) : bucket_(bucket) {}
    void add(double value) {
        if (std::isfinite(value)) sum_ += value, ++n_;
    }
    void end_of_step(std::size_t index, bool is_last) {
        if ((index + 1) % bucket_ != 0 && !is_last) return;
        means_.push_back(n_ ? sum_ / double(n_) : NAN);
        sum_ = 0, n_ = 0;
    }
    const std::vector<double>& means() const { return means_; }

  private:
    std::size_t bucket_, n_ = 0;
    double sum_ = 0;
    std::vector<double> means_;
};

/// Lists of the steps at which the curves of a run have points. Most runs share one list. Equal lists are kept once.
class StepLists {
  public:
    std::uint64_t index_of(const std::vector<std::int64_t>& steps) {
        const auto found = std::find(lists_.begin(), lists_.end(), steps);
        if (found == lists_.end()) return lists_.push_back(steps), lists_.size() - 1;
        return std::uint64_t(found - lists_.begin());
    }
    const std::vector<std::vector<std::int64_t>>& lists() const { return lists_; }

  private:
    std::vector<std::vector<std::int64_t>> lists_;
};

void put_steps(JsonText& out, const RunLog& run, const RunLog* baseline, std::size_t bucket, StepLists& axes) {
    constexpr double decay = DivergenceRules::ema_decay;
    Bucketed loss(bucket), gap(bucket), lost(bucket), eff(bucket);
    std::vector<double> loss_ema, gap_ema;
    std::vector<std::int64_t> x;
    double loss_mean = NAN, gap_mean = NAN;
    std::size_t at = 0;
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
        const StepRow& step = run.steps[i];
        const bool is_last = i + 1 == run.steps.size();
        double baseline_loss = step.baseline_loss ? double{*step.baseline_loss} : NAN;
        if (baseline) {
            while (at < baseline->steps.size() && baseline->steps[at].step < step.step) ++at;
            const bool is_paired = at < baseline->steps.size() && baseline->steps[at].step == step.step;
            baseline_loss = is_paired ? double{baseline->steps[at].loss} : NAN;
        }
        const double difference = baseline == &run ? NAN : step.loss - baseline_loss;
        if (std::isfinite(step.loss)) {
            loss_mean = std::isnan(loss_mean) ? step.loss : decay * loss_mean + (1 - decay) * step.loss;
        }
        if (std::isfinite(difference)) {
            gap_mean = std::isnan(gap_mean) ? difference : decay * gap_mean + (1 - decay) * difference;
        }
        loss.add(step.loss), gap.add(difference);
        if (!step.skipped) lost.add(double(step.lost_updates));
        if (step.update_eff) eff.add(*step.update_eff);
        for (Bucketed* curve : {&loss, &gap, &lost, &eff}) curve->end_of_step(i, is_last);
        if ((i + 1) % bucket == 0 || is_last) {
            x.push_back(step.step);
            // A curve has no point where the loss is not finite, unless the step was skipped.
            loss_ema.push_back(std::isfinite(step.loss) || step.skipped ? loss_mean : NAN);
            gap_ema.push_back(std::isfinite(difference) || step.skipped ? gap_mean : NAN);
        }
    }
    // Gaps are drawn as lines, for which three digits are enough.
    constexpr int loss_digits = 6, gap_digits = 3, count_digits = 4;
    out.key("step"), out.put(axes.index_of(x));
    out.put_list("loss", loss.means(), loss_digits);
    out.put_list("loss_ema", loss_ema, loss_digits);
    if (baseline != &run) {
        out.put_list("gap", gap.means(), gap_digits);
        out.put_list("gap_ema", gap_ema, gap_digits);
    }
    out.put_list("lost", lost.means(), count_digits);
    out.put_list("eff", eff.means(), loss_digits);

    out.key("scale"), out.open('[');
    float last = NAN;
    for (const StepRow& step : run.steps) {
        if (step.loss_scale == last) continue;
        last = step.loss_scale;
        out.open('['), out.put(step.step), out.put(double{last}, 9), out.close(']');
    }
    out.close(']'), out.key("skipped"), out.open('[');
    for (const StepRow& step : run.steps) {
        if (step.skipped) out.open('['), out.put(step.step), out.put(double{step.loss_scale}, 9), out.close(']');
    }
    out.close(']');
}

void put_evals(JsonText& out, const RunLog& run) {
    if (run.evals.empty()) return;
    std::vector<std::int64_t> x;
    std::vector<double> loss, fp32, floor;
    for (const EvalRow& eval : run.evals) {
        x.push_back(eval.step);
        loss.push_back(eval.eval_loss);
        fp32.push_back(eval.eval_loss_fp32.value_or(NAN));
        floor.push_back(eval.entropy_floor.value_or(NAN));
    }
    out.key("evals"), out.open('{');
    out.put_list("step", x), out.put_list("loss", loss), out.put_list("fp32", fp32), out.put_list("floor", floor);
    out.close('}');
}

void put_formats(JsonText& out) {
    out.key("formats"), out.open('{');
    for (const NamedFormat& row : all_formats) {
        const Format f = row.format;
        if (f.encoding != Encoding::binary || f.bits > 32) continue;
        out.key(row.name), out.open('{');
        out.key("least"), out.put(std::int64_t{f.emin() - f.fraction_bits()});
        out.key("normal"), out.put(std::int64_t{f.emin()});
        out.key("largest"), out.put(decode64(f, f.max_finite_code() << f.padding), 17);
        out.close('}');
    }
    out.close('}');
}

/// Writes the data of a policy for the charts that compare policies. Gaps are fractions of fp32's loss, and bytes are
/// per parameter.
void put_policy(JsonText& out, const PolicySummary& policy) {
    const SummaryRow& row = policy.row;
    const PairedMean gap = paired_mean(policy.seed_gaps);
    const double loss = baseline_loss_of(policy);
    const auto put = [&](std::string_view name, std::optional<double> value, double unit) {
        out.key(name), out.put(value.value_or(NAN) / unit);
    };
    const SummaryCells cells = summary_cells(policy);
    out.open('{');
    out.key("name"), out.put(std::string_view(row.policy));
    out.key("verdict"), out.put(std::string_view(row.verdict));
    out.key("tone"), out.put(tone_of(row.verdict));
    out.key("baseline"), out.put(row.policy == baseline_policy);
    out.key("gap_words"), out.put(std::string_view(cells.gap));
    put("gap", row.gap_mean, loss), put("seen", row.detectable_gap, loss);
    put("half95", gap.half_width_95, loss), put("half90", gap.half_width_90, loss);
    put("static", row.static_bytes, 1), put("activations", row.activation_bytes, 1);
    out.close('}');
}

/// How much of the heat maps or of the histograms the page keeps: whether only one seed per policy, and how many
/// columns or steps of each run. See PageLimits.
struct Share {
    bool one_seed = false;
    std::size_t per_run = 0;  ///< columns of a heat map, or steps with a histogram
};

template <class Row>
Share share_of(const Log& log, std::vector<Row> RunLog::*rows, std::size_t per_run, double row_cost, std::size_t most,
               bool one_seed) {
    std::set<std::string> policies;
    double all = 0, first_seed = 0;
    for (const RunLog& run : log.runs) {
        const SampleAxes axes = axes_of(run.*rows);
        if (axes.steps.empty()) continue;
        const double cost = double(axes.sites.size()) * row_cost * double(std::min(per_run, axes.steps.size()));
        all += cost;
        if (policies.insert(run.policy).second) first_seed += cost;
    }
    if (all <= double(most)) return {.one_seed = one_seed, .per_run = per_run};
    const double shrink = std::min(1.0, double(most) / first_seed);
    return {true, std::max<std::size_t>(2, std::size_t(shrink * double(per_run)))};
}

}  // namespace

std::size_t points_bucket(const Log& log, const Summary& summary, const PageLimits& limits) {
    std::set<std::string_view> policies;
    for (const PolicySummary& policy : summary.policies) policies.insert(policy.row.policy);
    std::size_t longest = 0, all = 0;
    for (const RunLog& run : log.runs) {
        if (!policies.contains(run.policy)) continue;
        longest = std::max(longest, run.steps.size());
        all += run.steps.size();
    }
    const auto parts = [](std::size_t whole, std::size_t part) { return (whole + part - 1) / part; };
    return std::max<std::size_t>({1, parts(longest, limits.points), parts(all, limits.all_points)});
}

std::string page_data(const Log& log, const Summary& summary, const PageLimits& limits) {
    const std::size_t bucket = points_bucket(log, summary, limits);
    const Share heat = share_of(log, &RunLog::sites, limits.heat_columns, 1, limits.heat_cells, limits.one_seed);
    const Share histograms =
        share_of(log, &RunLog::exponents, limits.histogram_steps, 24, limits.histogram_bins, limits.one_seed);
    JsonText out;
    Names names;
    StepLists steps;
    out.open('{');
    out.key("margin"), out.put(summary.margin);
    put_formats(out);
    out.key("policies"), out.open('[');
    std::map<std::string, std::size_t> index;
    for (const PolicySummary& policy : summary.policies) {
        index.emplace(policy.row.policy, index.size());
        put_policy(out, policy);
    }
    out.close(']'), out.key("runs"), out.open('[');
    std::set<std::string> with_heat, with_histograms;
    for (const RunLog& run : log.runs) {
        if (!index.contains(run.policy)) continue;
        out.open('{');
        out.key("run"), out.put(std::string_view(run.row.run));
        out.key("policy"), out.put(std::uint64_t{index.at(run.policy)});
        out.key("seed"), out.put(run.row.seed);
        put_steps(out, run, run.baseline ? &log.runs[*run.baseline] : nullptr, bucket, steps);
        put_evals(out, run);
        if (!run.sites.empty() && (with_heat.insert(run.policy).second || !heat.one_seed)) {
            put_heat(out, run, names, heat.per_run);
        }
        if (!run.exponents.empty() && (with_histograms.insert(run.policy).second || !histograms.one_seed)) {
            put_exponents(out, run, names, histograms.per_run);
        }
        out.close('}');
    }
    out.close(']');
    out.key("steps"), out.open('[');
    for (const std::vector<std::int64_t>& list : steps.lists()) {
        out.open('[');
        for (const std::int64_t step : list) out.put(step);
        out.close(']');
    }
    out.close(']');
    out.put_list("names", names.list());
    out.put_list("exponent_fields", exponent_fields);
    if (!log.gemm.empty()) put_gemm(out, log.gemm, limits.gemm_rows);
    out.close('}');
    return out.take();
}

}  // namespace macheps::reports
