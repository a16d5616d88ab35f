// SPDX-License-Identifier: Apache-2.0
// Builds a Problem (a declaration with its data) from the arrays that the input files contain. Finds the arrays by
// name, decodes them, and checks that their shapes agree.
#include "experiments/check/declare/declare_products.hpp"
#include "experiments/check/judge/judge.hpp"
#include "experiments/check/pose/canary.hpp"
#include "experiments/check/pose/poser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace macheps::check {

namespace {

/// Throws if the declaration lacks something that the operation needs, or if two arrays have the same name.
void check_declaration(const Poser& poser, const Declaration& d, const std::vector<files::StoredArray>& arrays) {
    if (d.operation->has_eps && !d.eps)
        throw usage_error(fmt::format("{} needs an eps", d.operation->name), "--eps",
                          "pass the kernel's eps, such as 1e-5");
    files::refuse_equal_names(arrays);
    if (d.beta != 1 && poser.find("c") == nullptr)
        throw usage_error("there is no array 'c'", "--beta", "remove it, or save c");
}

/// Tries the usual conversions of operands, because `operands any` declares only that one of them converts all
/// operands. Returns the problem for the first conversion under which the outputs pass. If the outputs pass under none,
/// returns the problem with the smallest error (rho). A single bound that covers all conversions would be thousands of
/// times wider.
Posed pose_some_conversion(const Declaration& d, const std::vector<files::StoredArray>& arrays, ThreadPool& pool,
                           const Sampling& sampling) {
    std::optional<Posed> best;
    std::optional<Error> refused;
    double least = std::numeric_limits<double>::infinity();
    for (const OperandConversion& way : operand_conversions) {
        Declaration one = d;
        one.conversion = way.name;
        try {
            Posed posed = pose(one, arrays, pool, sampling);
            const Limits limits = limits_of(posed.problem, sampling.delta, pool);
            Premise premise(posed.problem, limits);
            const Judgement judgement = judge(limits, posed.out, {.premise = &premise, .pool = &pool});
            if (judgement.reasons.empty() && limits.declined < 0) return posed;
            if (!best || judgement.rho < least) {
                least = judgement.rho;
                best = std::move(posed);
            }
        } catch (const Error& error) {  // for example if the machine has no operands of this format
            if (!refused) refused = error;
        }
    }
    if (!best) throw *refused;
    return std::move(*best);
}

}  // namespace

Posed pose(const Declaration& d, const std::vector<files::StoredArray>& arrays, ThreadPool& pool,
           const Sampling& sampling) {
    if (d.operation->is_product && d.operands == "any" && d.conversion.empty())
        return pose_some_conversion(d, arrays, pool, sampling);
    if (d.canaries > 0) return pose_before_canaries(d, arrays, pool, sampling);
    const Poser poser(d, arrays, sampling.reads_in_place);
    check_declaration(poser, d, arrays);
    Posed posed;
    posed.problem.declaration = d;
    posed.problem.max_limit_bytes = sampling.max_limit_bytes;
    if (!d.operation->gives_index) {
        DecodedInPlace out = poser.decode_in_place("out");
        posed.out_shape = std::move(out.shape);
        posed.out = std::move(out.values);
        posed.problem.declaration.formats["out"].format = posed.problem.output = out.format;
    }
    switch (d.operation->layout) {
        case Layout::product:
            pose_product(poser, posed, pool, sampling);
            break;
        case Layout::rows:
            pose_rows(poser, posed);
            break;
        case Layout::gated:
            pose_gated(poser, posed);
            break;
        case Layout::rotary:
            pose_rotary(poser, posed);
            break;
        case Layout::gathered:
            pose_gathered(poser, posed);
            break;
        case Layout::classes:
            pose_classes(poser, posed);
            break;
        case Layout::quantised:
            pose_quantised(poser, posed);
            break;
    }
    return posed;
}

}  // namespace macheps::check
