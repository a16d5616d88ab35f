// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/check_output.hpp"

#include "core/format_table.hpp"
#include "experiments/cmd/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace macheps {

namespace {

using namespace check;

std::string declared_text(const Problem& problem) {
    const Declaration& d = problem.declaration;
    std::string text = fmt::format("{}", d.operation->name);
    if (problem.products) {
        const ProductOperands& of = problem.products->operands();
        text += fmt::format("  {}[{}, {}] x {}[{}, {}]", format_name(of.a_format), of.m, of.k, format_name(of.b_format),
                            of.k, of.n);
        if (of.batches > 1) text += fmt::format(", {} batches", of.batches);
        text += fmt::format(", machine {}", d.machine_name == "any" ? "any order of fp32 sums" : d.machine_name);
    } else {
        text += fmt::format("  {} rows of {}", problem.rows, problem.columns);
    }
    for (const Input& input : problem.inputs) {
        if (input.name != "x") text += fmt::format(", {}", input.name);
    }
    if (d.eps) text += fmt::format(", eps {:g}", *d.eps);
    if (d.alpha != 1) text += fmt::format(", alpha {:g}", d.alpha);
    if (d.beta != 1) text += fmt::format(", beta {:g}", d.beta);
    return text + fmt::format(" -> {}{}", format_name(problem.output), d.saturates ? ", saturating" : "");
}

std::vector<std::string> assumptions_of(const Problem& problem) {
    std::vector<std::string> all{"arithmetic inside is fp32"};
    const FunctionTable& table = find_functions(problem.declaration.functions);
    if (!problem.products && problem.declaration.operation->name.find("softmax") != std::string_view::npos) {
        all.push_back(fmt::format("exp within {:g}, log within {:g} ulp ({}: {})", table.exponential, table.logarithm,
                                  table.name, table.source));
    }
    if (problem.declaration.operation->has_eps)
        all.push_back(fmt::format("rsqrt within {:g} ulp ({}: {})", table.inverse_root, table.name, table.source));
    return all;
}

/// A relative size, or `none` where it is infinite.
std::string size_text(double x) { return std::isfinite(x) ? fmt::format("{:.2g}", x) : "no scale error at all"; }

std::string sharpness_text(const Sharpness& s) {
    std::string text = fmt::format("would have failed: a scale error of {} in all, {} in any one row",
                                   size_text(s.scale_of_all), size_text(s.scale_of_row));
    if (s.dropped_terms > 0)
        text += fmt::format(", {} dropped term{}", s.dropped_terms, s.dropped_terms == 1 ? "" : "s");
    return text + fmt::format(", 1 stale element in {:.3g} % of all places", 100 * s.stale_share);
}

std::string reason_text(const Limits& limits, const Reason& reason) {
    std::string text = fmt::format("  {} {}  {}", reason.code, reason.test, reason.text);
    if (reason.test == "T3") return text + fmt::format(", {:.4g} of at most {:.4g}", reason.got, reason.bound);
    if (reason.index >= 0) {
        text +=
            fmt::format("\n             {}: got {}, exact {}", place_of(limits, reason.index), reason.got, reason.want);
        if (reason.ratio > 0) text += fmt::format(", off by {:.4g} bounds of {:.3g}", reason.ratio, reason.bound);
        if (reason.count > 1) text += fmt::format("; {} outputs", reason.count);
    }
    return text;
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

}  // namespace

std::string check_text(const Problem& problem, const Verdict& v, const Options& options, const CheckedFiles& files) {
    std::string text = fmt::format("{}  {}\n", to_string(v.outcome), declared_text(problem));
    for (const Reason& reason : v.reasons) text += reason_text(v.limits, reason) + '\n';
    if (v.outcome == Outcome::declined || v.outcome == Outcome::refused) return text;
    const Judgement& j = v.judgement;
    text += fmt::format(
        "  rho {:.4g} of 1, z {:.3g} of 6 (of a part {:.3g}), bias {:.3g} of {:.3g}; {} outputs, exact: {}\n", j.rho,
        j.z, j.z_part, j.bias, j.bias_limit, j.outputs, j.exact_outputs);
    text += "  ";
    for (const Metric& metric : v.metrics)
        text += fmt::format("{}{} {:.4g}", &metric == &v.metrics.front() ? "" : ", ", metric.name, metric.value);
    text += fmt::format("\n  {}\n", sharpness_text(v.sharpness));
    std::size_t caught = 0;
    for (const Mutant& mutant : v.mutants) caught += mutant.caught ? 1 : 0;
    text += fmt::format("  {} of {} wrong kernels would have been caught", caught, v.mutants.size());
    std::vector<std::string> missed;
    for (const Mutant* mutant : v.blind(Power::precision)) {
        if (mutant->required_by > options.require) missed.push_back(mutant->name);
    }
    if (!missed.empty()) text += fmt::format("; not, and not required: {}", fmt::join(missed, ", "));
    text += '\n';
    text += fmt::format("  assumed: {}\n", fmt::join(assumptions_of(problem), "; "));
    if (!files.unused.empty()) text += fmt::format("  not used: {}\n", fmt::join(files.unused, ", "));
    return text;
}

Json check_json(const Problem& problem, const Verdict& v, const Options& options, const CheckedFiles& files) {
    Json reasons = Json::array(), power = Json::array(), blind = Json::array();
    for (const Reason& reason : v.reasons) reasons.push_back(reason_json(reason));
    for (const Mutant& m : v.mutants) {
        power.push_back({{"mutant", m.name},
                         {"class", m.kind},
                         {"certified", m.certified},
                         {"caught", m.caught},
                         {"largest", json_number(m.largest)}});
    }
    for (const Mutant* mutant : v.blind(Power::precision)) blind.push_back(mutant->name);
    const Judgement& j = v.judgement;
    constexpr const char* powers[] = {"null", "structure", "precision", "all"};
    Json one = {{"op", problem.declaration.operation->name},
                {"declared", declared_text(problem)},
                {"require", powers[static_cast<std::size_t>(options.require)]},
                {"verdict", to_string(v.outcome)},
                {"reasons", reasons},
                {"rho", json_number(j.rho)},
                {"z", {{"all", json_number(j.z)}, {"part", json_number(j.z_part)}}},
                {"bias", {{"mean", json_number(j.bias)}, {"limit", json_number(j.bias_limit)}}},
                {"outputs", j.outputs},
                {"exact_outputs", j.exact_outputs},
                {"escalated", v.limits.escalated},
                {"sharpness",
                 {{"scale_of_all", json_number(v.sharpness.scale_of_all)},
                  {"scale_of_row", json_number(v.sharpness.scale_of_row)},
                  {"dropped_terms", v.sharpness.dropped_terms},
                  {"stale_share", json_number(v.sharpness.stale_share)}}},
                {"power", power},
                {"blind", blind},
                {"assumptions", assumptions_of(problem)},
                {"inputs", {{"files", files.files}, {"sha256", files.digest}, {"unused", files.unused}}}};
    Json known = Json::object();
    for (const Metric& metric : v.metrics) known[metric.name] = json_number(metric.value);
    one["metrics"] = known;
    Json checks = Json::array();
    checks.push_back(one);
    Json document = Json::object();
    document["schema"] = "macheps.check/1";
    document["verdict"] = to_string(v.outcome);
    document["checks"] = checks;
    return document;
}

}  // namespace macheps
