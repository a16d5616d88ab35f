// SPDX-License-Identifier: Apache-2.0
#include "reports/page_data.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/json.hpp"
#include "reports/gemm_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <type_traits>

namespace macheps {

namespace {

/// Writes JSON a value at a time; commas come by themselves.
class JsonText {
  public:
    void key(std::string_view name) { comma(), string(name), text_ += ':', fresh_ = true; }
    void open(char bracket) { comma(), text_ += bracket, fresh_ = true; }
    void close(char bracket) { text_ += bracket, fresh_ = false; }
    void put(std::string_view value) { comma(), string(value); }
    void put(bool value) { comma(), text_ += value ? "true" : "false"; }
    void put(std::int64_t value) { comma(), text_ += fmt::format("{}", value); }
    void put(std::uint64_t value) { comma(), text_ += fmt::format("{}", value); }
    void put(double value, int digits = 6) {
        comma(), text_ += std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
    }
    void put_null() { comma(), text_ += "null"; }
    template <class List>
    void put_list(std::string_view name, const List& list) {
        key(name), open('[');
        for (const auto& value : list) put(value);
        close(']');
    }
    std::string take() { return std::move(text_); }

  private:
    void comma() {
        if (!fresh_) text_ += ',';
        fresh_ = false;
    }
    void string(std::string_view value) {
        const std::string quoted = json_ascii(value);
        // "</script>" and "<!--" would end or change the script that this stands in.
        for (const char c : quoted) c == '<' ? text_ += "\\u003c" : text_ += c;
    }
    std::string text_;
    bool fresh_ = true;
};

/// Means of equally many steps; null where nothing was measured.
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

void put_steps(JsonText& out, const RunLog& run, const RunLog* baseline, std::size_t bucket) {
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
            // A curve ends where its loss stops being a number.
            loss_ema.push_back(std::isfinite(step.loss) || step.skipped ? loss_mean : NAN);
            gap_ema.push_back(std::isfinite(difference) || step.skipped ? gap_mean : NAN);
        }
    }
    out.put_list("step", x);
    out.put_list("loss", loss.means());
    out.put_list("loss_ema", loss_ema);
    if (baseline != &run) {
        out.put_list("gap", gap.means());
        out.put_list("gap_ema", gap_ema);
    }
    out.put_list("lost", lost.means());
    out.put_list("eff", eff.means());

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

/// The names and steps of a run's sampled sites, each in the order of its first row.
struct Axes {
    std::vector<std::string> sites;
    std::map<std::string, std::size_t, std::less<>> site_index;
    std::vector<std::int64_t> steps;
};

template <class Row>
Axes axes_of(const std::vector<Row>& rows) {
    Axes axes;
    std::set<std::int64_t> steps;
    for (const Row& row : rows) {
        if (axes.site_index.emplace(row.site, axes.sites.size()).second) axes.sites.push_back(row.site);
        steps.insert(row.step);
    }
    axes.steps.assign(steps.begin(), steps.end());
    return axes;
}

void put_heat(JsonText& out, const RunLog& run, std::size_t most_columns) {
    const Axes axes = axes_of(run.sites);
    const std::size_t per_column = (axes.steps.size() + most_columns - 1) / most_columns;
    const std::size_t columns = (axes.steps.size() + per_column - 1) / per_column;
    const std::size_t cells = axes.sites.size() * columns;
    std::vector<std::string> formats(axes.sites.size());
    std::vector<std::uint64_t> count(cells);
    using Field = std::pair<std::string_view, std::uint64_t SiteRow::*>;
    const std::array<Field, 5> fields{{{"underflow", &SiteRow::underflow},
                                       {"to_subnormal", &SiteRow::to_subnormal},
                                       {"overflow", &SiteRow::overflow},
                                       {"saturated", &SiteRow::saturated},
                                       {"zero_in", &SiteRow::zero_in}}};
    std::array<std::vector<std::uint64_t>, 5> sums;
    sums.fill(std::vector<std::uint64_t>(cells));
    for (const SiteRow& row : run.sites) {
        const std::size_t site = axes.site_index.find(row.site)->second;
        const auto step = std::lower_bound(axes.steps.begin(), axes.steps.end(), row.step) - axes.steps.begin();
        const std::size_t cell = site * columns + std::size_t(step) / per_column;
        formats[site] = row.format;
        count[cell] += row.count;
        for (std::size_t f = 0; f < fields.size(); ++f) sums[f][cell] += row.*fields[f].second;
    }
    std::vector<std::int64_t> firsts;
    for (std::size_t c = 0; c < columns; ++c) firsts.push_back(axes.steps[c * per_column]);
    out.key("heat"), out.open('{');
    out.put_list("step", firsts);
    out.key("per_column"), out.put(std::uint64_t{per_column});
    out.put_list("site", axes.sites);
    out.put_list("format", formats);
    for (std::size_t f = 0; f < fields.size(); ++f) {
        out.key(fields[f].first), out.open('[');
        for (std::size_t cell = 0; cell < cells; ++cell) {
            // Parts per million; what happened at all is at least 1.
            const double ppm = 1e6 * double(sums[f][cell]) / double(std::max<std::uint64_t>(count[cell], 1));
            if (count[cell] == 0) {
                out.put_null();
            } else {
                out.put(sums[f][cell] == 0 ? std::uint64_t{0} : std::max<std::uint64_t>(1, std::uint64_t(ppm + 0.5)));
            }
        }
        out.close(']');
    }
    out.close('}');
}

struct Histogram {
    std::map<std::int32_t, std::uint64_t> counts;
    std::uint64_t zero = 0, inf = 0, nan = 0;
};

void put_exponents(JsonText& out, const RunLog& run, std::size_t most_steps) {
    const Axes axes = axes_of(run.exponents);
    std::set<std::int64_t> kept;
    const std::size_t n = std::min(most_steps, axes.steps.size());
    for (std::size_t k = 0; k < n; ++k)
        kept.insert(axes.steps[n == 1 ? axes.steps.size() - 1 : k * (axes.steps.size() - 1) / (n - 1)]);
    std::map<std::pair<std::size_t, std::int64_t>, Histogram> histograms;
    for (const ExponentRow& row : run.exponents) {
        if (!kept.contains(row.step)) continue;
        Histogram& histogram = histograms[{axes.site_index.find(row.site)->second, row.step}];
        switch (row.exponent.kind) {
            case ExponentBin::Kind::number:
                histogram.counts[row.exponent.exponent] += row.count;
                break;
            case ExponentBin::Kind::zero:
                histogram.zero += row.count;
                break;
            case ExponentBin::Kind::inf:
                histogram.inf += row.count;
                break;
            case ExponentBin::Kind::nan:
                histogram.nan += row.count;
                break;
        }
    }
    std::map<std::pair<std::string_view, std::int64_t>, const SiteRow*> casts;
    for (const SiteRow& row : run.sites) casts.emplace(std::pair{std::string_view(row.site), row.step}, &row);
    out.key("exps"), out.open('[');
    for (const auto& [where, histogram] : histograms) {
        const std::string& site = axes.sites[where.first];
        const auto cast = casts.find({site, where.second});
        const SiteRow* row = cast == casts.end() ? nullptr : cast->second;
        out.open('{');
        out.key("site"), out.put(std::string_view(site));
        out.key("step"), out.put(where.second);
        out.key("format"), out.put(std::string_view(row ? row->format : std::string{}));
        out.key("scale"), out.open('[');
        out.put(double{row ? row->scale_inv_min : 1.0f}, 9), out.put(double{row ? row->scale_inv_max : 1.0f}, 9);
        out.close(']');
        const std::int32_t first = histogram.counts.empty() ? 0 : histogram.counts.begin()->first;
        out.key("first"), out.put(std::int64_t{first});
        std::vector<std::uint64_t> counts;
        for (const auto& [exponent, count] : histogram.counts) {
            counts.resize(std::size_t(exponent - first));  // bins without a row counted nothing
            counts.push_back(count);
        }
        out.put_list("counts", counts);
        out.key("zero"), out.put(histogram.zero);
        out.key("inf"), out.put(histogram.inf);
        out.key("nan"), out.put(histogram.nan);
        out.close('}');
    }
    out.close(']');
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

/// The columns of GemmRow that the page draws or tells apart, in the order of its lists.
constexpr std::array<std::string_view, 17> gemm_fields{
    "seed",    "m",       "n",    "k",     "scale", "max_error",      "rms_error", "max_rel",    "rms_rel",
    "max_ulp", "sqnr_db", "bias", "drift", "bound", "probable_bound", "first",     "first_exact"};

/// The value of a row's column `name`: whole numbers as they are, others to seven digits.
void put_column(JsonText& out, const GemmRow& row, std::string_view name) {
    const auto put = [&](const auto& column) {
        if (column.name != name) return;
        const auto& value = row.*column.field;
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_integral_v<Value>) {
            out.put(value);
        } else if constexpr (std::is_floating_point_v<Value>) {
            out.put(double{value}, 7);
        } else if constexpr (std::is_same_v<Value, std::optional<double>>) {
            out.put(value.value_or(NAN), 7);
        }
    };
    std::apply([&](const auto&... columns) { (put(columns), ...); }, GemmRow::columns);
}

/// The rows of `macheps gemm`, a list each: curve and kind of operands by index, then gemm_fields.
void put_gemm(JsonText& out, const std::vector<GemmRow>& rows, std::size_t most) {
    std::vector<std::string> machines, sets;
    const std::vector<std::string> series = gemm_series_names(rows);
    const auto index_of = [](std::vector<std::string>& names, const std::string& name) {
        const auto at = std::find(names.begin(), names.end(), name);
        if (at != names.end()) return static_cast<std::int64_t>(at - names.begin());
        names.push_back(name);
        return static_cast<std::int64_t>(names.size() - 1);
    };
    out.key("gemm"), out.open('{'), out.key("rows"), out.open('[');
    for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
        out.open('[');
        out.put(index_of(machines, series[i])), out.put(index_of(sets, gemm_data_name(rows[i])));
        for (const std::string_view name : gemm_fields) put_column(out, rows[i], name);
        out.close(']');
    }
    out.close(']');
    std::vector<std::string_view> fields{"machine", "set"};
    fields.insert(fields.end(), gemm_fields.begin(), gemm_fields.end());
    out.put_list("fields", fields), out.put_list("machine", machines), out.put_list("set", sets);
    out.key("left_out"), out.put(std::uint64_t{rows.size() - std::min(most, rows.size())});
    out.close('}');
}

/// How many of a run's sampled rows the page keeps, and of which runs: see PageLimits.
struct Share {
    bool one_seed = false;
    std::size_t per_run = 0;  ///< columns or steps
};

template <class Row>
Share share_of(const Log& log, std::vector<Row> RunLog::*rows, std::size_t per_run, double row_cost, std::size_t most) {
    std::set<std::string> policies;
    double all = 0, first_seed = 0;
    for (const RunLog& run : log.runs) {
        const Axes axes = axes_of(run.*rows);
        if (axes.steps.empty()) continue;
        const double cost = double(axes.sites.size()) * row_cost * double(std::min(per_run, axes.steps.size()));
        all += cost;
        if (policies.insert(run.policy).second) first_seed += cost;
    }
    if (all <= double(most)) return {false, per_run};
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
    const Share heat = share_of(log, &RunLog::sites, limits.heat_columns, 1, limits.heat_cells);
    const Share histograms = share_of(log, &RunLog::exponents, limits.histogram_steps, 24, limits.histogram_bins);
    JsonText out;
    out.open('{');
    out.key("margin"), out.put(summary.margin);
    put_formats(out);
    out.key("policies"), out.open('[');
    std::map<std::string, std::size_t> index;
    for (const PolicySummary& policy : summary.policies) {
        index.emplace(policy.row.policy, index.size());
        out.open('{');
        out.key("name"), out.put(std::string_view(policy.row.policy));
        out.key("verdict"), out.put(std::string_view(policy.row.verdict));
        out.key("baseline"), out.put(policy.row.policy == baseline_policy);
        out.close('}');
    }
    out.close(']'), out.key("runs"), out.open('[');
    std::set<std::string> with_heat, with_histograms;
    for (const RunLog& run : log.runs) {
        if (!index.contains(run.policy)) continue;
        out.open('{');
        out.key("run"), out.put(std::string_view(run.row.run));
        out.key("policy"), out.put(std::uint64_t{index.at(run.policy)});
        out.key("seed"), out.put(run.row.seed);
        put_steps(out, run, run.baseline ? &log.runs[*run.baseline] : nullptr, bucket);
        put_evals(out, run);
        if (!run.sites.empty() && (with_heat.insert(run.policy).second || !heat.one_seed)) {
            put_heat(out, run, heat.per_run);
        }
        if (!run.exponents.empty() && (with_histograms.insert(run.policy).second || !histograms.one_seed)) {
            put_exponents(out, run, histograms.per_run);
        }
        out.close('}');
    }
    out.close(']');
    if (!log.gemm.empty()) put_gemm(out, log.gemm, limits.gemm_rows);
    out.close('}');
    return out.take();
}

}  // namespace macheps
