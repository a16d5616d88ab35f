// SPDX-License-Identifier: Apache-2.0
#include "core/host/version.hpp"
#include "core/text/json_number.hpp"
#include "core/text/shown.hpp"
#include "experiments/check/checked.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/options.hpp"
#include "experiments/check/verdicts/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

/// Formats the smallest relative error that would have been caught. Infinity becomes "none".
std::string size_text(double x) { return std::isfinite(x) ? fmt::format("{:.2g}", x) : "none"; }

std::string sharpness_text(const Sharpness& s) {
    std::string text = fmt::format(
        "smallest faults that would have been caught: scale errors of {} in all outputs, {} in any one row, {} in a "
        "column, {} in a tile",
        size_text(s.scale_of_all), size_text(s.scale_of_row), size_text(s.scale_of_column), size_text(s.scale_of_tile));
    if (std::isfinite(s.bias_share)) text += fmt::format(", {:.2g} of the bias missing", s.bias_share);
    if (s.accumulator_bits > 0) text += fmt::format(", an accumulator of {} bits", s.accumulator_bits);
    if (s.dropped_terms > 0)
        text += fmt::format(", {} dropped term{}", s.dropped_terms, s.dropped_terms == 1 ? "" : "s");
    return text + fmt::format(", 1 stale element (at {:.3g} % of the positions)", 100 * s.stale_share);
}

bool is_sampled(const Verdict& v) { return v.limits->sample && v.limits->sample->every() > 1; }

/// Describes which outputs were judged, and the result of the screen of all outputs.
std::string sample_text(const Verdict& v) {
    const Sample& sample = *v.limits->sample;
    const std::int64_t all = sample.whole_rows() * sample.whole_columns();
    std::string text = fmt::format("  sampled: one output in {} (--sample {}), in each row and column; ",
                                   sample.every(), sample.every());
    if (!v.screen) return text + fmt::format("the {} outputs were not screened: {}\n", all, v.unscreened);
    if (v.screen->sums == 0)
        return text + fmt::format("the {} outputs were not screened: any of them may overflow\n", all);
    return text + fmt::format(
                      "screened: {} of {} outputs, in sums of {}; the largest error is {} times its bound; an error of "
                      "{} times the bound in one output would have been caught\n",
                      v.screen->outputs, all, Screen::width, multiple_text(v.screen->ratio, 3),
                      multiple_text(v.screen_bounds, 3));
}

Json reason_json(const Reason& r) {
    return {{"code", r.code},
            {"test", r.test},
            {"text", r.text},
            {"index", r.index},
            {"count", r.count},
            {"got", json_number(r.got)},
            {"want", json_number(r.want)},
            {"bound", json_number(r.bound)},
            {"ratio", json_number(r.ratio)}};
}

/// Returns true if outputs were judged, so there are statistics to report.
bool has_figures(Outcome outcome) {
    return outcome == Outcome::pass || outcome == Outcome::fail || outcome == Outcome::weak;
}

/// Returns the key of a metric in the JSON document.
std::string_view key_of(std::string_view metric) {
    if (metric == "max") return "max_abs";
    if (metric == "ulp") return "max_ulp";
    return metric == "sqnr" ? "sqnr_db" : metric;
}

void add_figures(const Checked& checked, Json& one) {
    const Verdict& v = checked.verdict;
    const Judgement& j = v.judgement;
    one["rho"] = json_number(j.rho);
    one["omega"] = std::isnan(checked.omega) ? Json() : json_number(checked.omega);
    one["z"] = {{"all", json_number(j.z)},         {"part", json_number(j.z_part)},
                {"rows", json_number(j.z_rows)},   {"cols", json_number(j.z_columns)},
                {"tiles", json_number(j.z_tiles)}, {"groups", json_number(j.z_groups)},
                {"bias", json_number(j.bias)},     {"bias_limit", json_number(j.bias_limit)}};
    Json histogram = Json::array();
    for (std::size_t bin = 0; bin < checked.code_distances.size(); ++bin) {
        const std::int64_t from = bin == 0 ? 0 : std::int64_t{1} << (bin - 1);
        histogram.push_back({{"from", from}, {"outputs", checked.code_distances[bin]}});
    }
    one["ulp_histogram"] = histogram;
    for (const Metric& metric : v.metrics) one[key_of(metric.name)] = json_number(metric.value);
    one["outputs"] = j.outputs;
    one["sampled"] = is_sampled(v) ? Json(v.limits->sample->every()) : Json(false);
    one["screen"] = Json();
    if (v.screen)
        one["screen"] = {{"outputs", v.screen->outputs},
                         {"sums", v.screen->sums},
                         {"ratio", json_number(v.screen->ratio)},
                         {"sees_bounds", json_number(v.screen_bounds)}};
    one["exact_outputs"] = j.exact_outputs;
    one["escalated"] = v.limits->escalated;
    one["sharpness"] = {{"scale_of_all", json_number(v.sharpness.scale_of_all)},
                        {"scale_of_row", json_number(v.sharpness.scale_of_row)},
                        {"scale_of_column", json_number(v.sharpness.scale_of_column)},
                        {"scale_of_tile", json_number(v.sharpness.scale_of_tile)},
                        {"scale_of_group", json_number(v.sharpness.scale_of_group)},
                        {"bias_share", json_number(v.sharpness.bias_share)},
                        {"accumulator_bits", v.sharpness.accumulator_bits},
                        {"dropped_terms", v.sharpness.dropped_terms},
                        {"stale_share", json_number(v.sharpness.stale_share)}};
    one["dependent_errors"] = Json();
    if (v.dependence)
        one["dependent_errors"] = {{"kernel", v.dependence->kernel},
                                   {"test", v.dependence->test},
                                   {"index", whole_index(*v.limits, v.dependence->index)},
                                   {"ratio", json_number(v.dependence->ratio)},
                                   {"dismissed", v.judgement.dismissed}};
    one["guaranteed_bits"] = json_number(v.fitness.bits);
    if (v.bits) one["bits"] = {{"equal", v.bits->equal}, {"differ", v.bits->differ}, {"first", v.bits->first}};
    Json power = Json::array();
    for (const Mutant& m : v.mutants) {
        power.push_back({{"mutant", m.name},
                         {"class", m.kind},
                         {"certified", m.certified},
                         {"simulated", m.caught},
                         {"threshold", m.threshold ? json_number(*m.threshold) : Json()},
                         {"largest", json_number(m.largest)}});
    }
    one["power"] = power;
}

/// Returns true if an output fails because its errors are too large, and a matrix unit could have made these errors.
bool could_be_a_matrix_unit(const Checked& checked) {
    if (!checked.may_be_a_matrix_unit) return false;
    return std::any_of(checked.verdict.reasons.begin(), checked.verdict.reasons.end(), [](const Reason& reason) {
        return reason.code == reason_code::certain || reason.code == reason_code::probable ||
               reason.code == reason_code::mean_square || reason.code == reason_code::bias ||
               reason.code == reason_code::part;
    });
}

/// Spells an option such as `--machine any`, `no --inner` or `--machine` for the reader of a text.
std::string spelled(const std::string& option, Spelling spelling) {
    if (spelling == Spelling::command_line) return option;
    const std::size_t begin = option.find("--") + 2, end = std::min(option.find(' ', begin), option.size());
    std::string name = option.substr(begin, end - begin);
    std::replace(name.begin(), name.end(), '-', '_');
    if (option.starts_with("no ")) return "no " + name;
    return end == option.size() ? name : fmt::format("{}=\"{}\"", name, option.substr(end + 1));
}

/// Returns the number of outputs that a verdict refuses for one reason.
std::int64_t count_of(const Verdict& v, const ReasonCode& code) {
    std::int64_t count = 0;
    for (const Reason& reason : v.reasons) count += reason.code == code ? reason.count : 0;
    return count;
}

/// Explains which tests do not decide on this data, and why.
std::string dependence_text(const Verdict& v) {
    const Dependence& d = *v.dependence;
    std::string text = fmt::format(
        "  rounding errors are not independent on this data: a legal kernel ({}) reaches {} times the limit of {}\n"
        "  at {}; probable bounds (T2) and mean squares (T3) do not decide there, only certain bounds (T1) do",
        d.kernel, multiple_text(d.ratio, 2), d.test, place_of(*v.limits, whole_index(*v.limits, d.index)));
    if (!v.judgement.dismissed.empty()) text += fmt::format("; dismissed: {}", fmt::join(v.judgement.dismissed, ", "));
    return text + '\n';
}

/// Formats the statistics of the tests, and well-known metrics.
std::string figures_text(const Checked& checked) {
    const Verdict& v = checked.verdict;
    const Judgement& j = v.judgement;
    std::string text =
        checked.is_exact()
            ? fmt::format("  exact: {} of {} outputs have their only right value\n  ",
                          j.outputs - count_of(v, reason_code::exact), j.outputs)
            : fmt::format(
                  "  rho {} (limit 1), z {:.3g} (limit 6; largest part {:.3g}), bias {:.3g} "
                  "(limit {:.3g}); {} outputs, {} exact\n  ",
                  multiple_text(j.rho, 4), j.z, j.z_part, j.bias, j.bias_limit, j.outputs, j.exact_outputs);
    for (const Metric& metric : v.metrics)
        text += fmt::format("{}{} {:.4g}", &metric == &v.metrics.front() ? "" : ", ", metric.name, metric.value);
    return text + '\n';
}

}  // namespace

bool Checked::is_exact() const {
    const Judgement& j = verdict.judgement;
    // With stochastic rounding, two values are right, and statistics show whether their frequencies are.
    return j.outputs > 0 && j.exact_outputs == j.outputs && declaration.rounding != Round::stochastic;
}

std::string Checked::text(bool is_whole, Spelling spelling) const {
    std::string text = fmt::format("{}  {}\n", to_string(outcome), problem.empty() ? operation : problem);
    if (!agrees_with.empty())
        text +=
            fmt::format("  the outputs agree with the wrong kernel `{}`\n", fmt::join(agrees_with, "`, and with `"));
    for (const Reason& reason : verdict.reasons) text += reason_text(*verdict.limits, reason) + '\n';
    for (const Advice& each : advice)
        text += fmt::format("  advice: inputs of the recipe '{}' would catch: {} (macheps check make-inputs)\n",
                            each.recipe, each.mutant);
    for (const std::string& note : notes) text += fmt::format("  note: {}\n", note);
    if (outcome == Outcome::fail && is_untouched)
        text += "  hint: `out` still holds the values that make-inputs wrote. Run the kernel on this file first\n";
    else if (outcome == Outcome::fail && could_be_a_matrix_unit(*this))
        text += fmt::format(
            "  hint: errors of tensor cores and other matrix units differ from those of fp32 sums. If the kernel\n"
            "        uses them, declare {} (macheps machine list)\n",
            spelled("--machine", spelling));
    if (!explaining.empty())
        text += fmt::format(
            "  hint: these outputs would pass with {0}. If the kernel is meant to work that way, declare {0}\n",
            spelled(explaining, spelling));
    if (!has_figures(outcome)) return text;
    const Judgement& j = verdict.judgement;
    if (j.outputs == 0 && !verdict.reasons.empty())
        text += "  no output is finite where it must be, so there is no error to measure\n";
    else
        text += figures_text(*this);
    if (verdict.dependence) text += dependence_text(verdict);
    if (is_sampled(verdict)) text += sample_text(verdict);
    if (!is_whole) return text;
    for (const Alternative& each : tighter)
        text +=
            fmt::format("  looser than needed: the output also passes with {}, whose bounds are {} times narrower\n",
                        spelled(each.option, spelling), multiple_text(each.narrower, 2));
    text += fmt::format("  {}\n", sharpness_text(verdict.sharpness));
    text += std::isinf(verdict.fitness.bits)
                ? "  the declared machine computes most outputs exactly here, up to the final rounding\n"
                : fmt::format("  the declared machine guarantees {:.3g} bits here (median over the outputs)\n",
                              verdict.fitness.bits);
    if (const auto& bits = verdict.bits)
        text += fmt::format("  {} of {} outputs have the required bits\n", bits->equal, bits->equal + bits->differ);
    std::size_t caught = 0;
    for (const Mutant& mutant : verdict.mutants) caught += mutant.caught ? 1 : 0;
    text += fmt::format("  {} of {} wrong kernels would have been caught", caught, verdict.mutants.size());
    std::vector<std::string> missed;
    for (const Mutant& mutant : verdict.mutants) {
        if (!mutant.caught && mutant.required_by > options.require) missed.push_back(mutant.name);
    }
    if (!missed.empty()) text += fmt::format("; not caught, and not required: {}", fmt::join(missed, ", "));
    text += '\n';
    text += fmt::format("  assumed: {}\n", fmt::join(assumed, "; "));
    if (!unused.empty()) text += fmt::format("  unused arrays: {}\n", shown_list(unused));
    return text;
}

Json Checked::json() const {
    Json reasons = Json::array(), inputs = Json::array();
    for (const Reason& reason : verdict.reasons) reasons.push_back(reason_json(reason));
    for (const File& file : files) inputs.push_back({{"file", file.name}, {"sha256", file.sha256}});
    Json one = Json::object();
    one["name"] = name;
    one["op"] = operation;
    one["declared"] = declaration.operation == nullptr ? Json::object() : declared_json(declaration);
    one["problem"] = problem;
    one["require"] = to_string(options.require);
    one["verdict"] = to_string(outcome);
    one["reasons"] = reasons;
    if (has_figures(outcome)) add_figures(*this, one);
    one["blind"] = blind;
    Json recipes = Json::array();
    for (const Advice& each : advice) recipes.push_back({{"mutant", each.mutant}, {"recipe", each.recipe}});
    one["advice"] = recipes;
    Json narrower = Json::array();
    for (const Alternative& each : tighter)
        narrower.push_back({{"option", each.option}, {"narrower", json_number(each.narrower)}});
    one["tighter"] = narrower;
    one["explained_by"] = explaining.empty() ? Json() : Json(explaining);
    one["agrees_with"] = agrees_with;
    one["assumptions"] = assumed;
    one["notes"] = notes;
    one["inputs"] = inputs;
    one["unused"] = unused;
    return one;
}

Json document_json(std::span<const Checked> checks) {
    Json list = Json::array();
    for (const Checked& one : checks) list.push_back(one.json());
    Json document = Json::object();
    document["schema"] = "macheps.check/1";
    document["version"] = version();
    document["verdict"] = to_string(worst_of(checks));
    document["checks"] = list;
    return document;
}

}  // namespace macheps::check
