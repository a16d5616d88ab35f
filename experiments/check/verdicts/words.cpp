// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/verdicts/words.hpp"

#include "core/format_table.hpp"
#include "experiments/check/checked.hpp"
#include "experiments/check/declare/declare_products.hpp"
#include "experiments/check/declare/operations.hpp"

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
                            of.k, problem.sample ? problem.sample->whole_columns() : of.n);
        if (of.batches > of.parts) text += fmt::format(", {} batches", of.batches / of.parts);
        text += fmt::format(", machine {}", machine_name_of(d) == "any"      ? "any order of fp32 sums"
                                            : machine_name_of(d) == "sliced" ? "fp32 sums over slices of k"
                                                                             : machine_name_of(d));
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

std::string reason_text(const Limits& limits, const Reason& reason) {
    std::string text = fmt::format("  {} {}  {}", reason.code, reason.test, reason.text);
    if (reason.test == "T3") {
        const char* figure = reason.code == reason_code::bias ? "mean" : "z";
        return text + fmt::format(" ({} {:.4g}, limit {:.4g})", figure, reason.got, reason.bound);
    }
    if (reason.test == "runs")
        return text +
               fmt::format("\n             first at {}; {} outputs", place_of(limits, reason.index), reason.count);
    if (reason.index >= 0) {
        text +=
            fmt::format("\n             {}: got {}, exact {}", place_of(limits, reason.index), reason.got, reason.want);
        if (reason.test == "screen")
            text += fmt::format(", bound of this output {:.3g}; the error of the sum is {} times its bound",
                                reason.bound, multiple_text(reason.ratio, 4));
        else if (const auto multiple = multiple_of(reason))
            text += fmt::format(", error {} times the bound {:.3g}", multiple_text(*multiple, 4), reason.bound);
        if (reason.count > 1)
            text += fmt::format("; {} {}", reason.count, reason.test == "screen" ? "sums" : "outputs");
    }
    return text;
}

std::string multiple_text(double multiple, int digits) {
    constexpr double largest_shown = 1e6;  // a larger multiple says no more than that the output is wrong
    return multiple > largest_shown ? "more than 1e6" : fmt::format("{:.{}g}", multiple, digits);
}

std::optional<double> multiple_of(const Reason& reason) {
    const bool has_bound = reason.ratio > 0 && reason.code != reason_code::exact && reason.code != reason_code::special;
    return has_bound ? std::optional(reason.ratio) : std::nullopt;
}

const std::map<std::string, std::string>& reason_codes() {
    static const std::map<std::string, std::string> by_code = [] {
        std::map<std::string, std::string> rows;
        for (const ReasonCode& row : reason_code::all) rows.emplace(row.code, row.meaning);
        return rows;
    }();
    return by_code;
}

}  // namespace macheps::check
