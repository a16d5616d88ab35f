// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/words.hpp"

#include "core/format_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace macheps::check {

std::string problem_text(const Problem& problem) {
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
    const Declaration& d = problem.declaration;
    for (const std::string& order : {d.sum_order, d.scale_order}) {
        if (order != "any") all.push_back(fmt::format("{} is claimed, and every order allowed", order));
    }
    const FunctionTable& table = find_functions(d.functions);
    if (!problem.products && d.operation->name.find("softmax") != std::string_view::npos) {
        all.push_back(fmt::format("exp within {:g}, log within {:g} ulp ({}: {})", table.exponential, table.logarithm,
                                  table.name, table.source));
    }
    if (d.operation->has_eps)
        all.push_back(fmt::format("rsqrt within {:g} ulp ({}: {})", table.inverse_root, table.name, table.source));
    return all;
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

}  // namespace macheps::check
