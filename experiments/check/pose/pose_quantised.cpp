// SPDX-License-Identifier: Apache-2.0
// Builds the problem of a quantiser. The declared scale rule computes the scales from x. The codes are judged with
// these scales, and the scales that the kernel wrote must equal them. Rules and granularities come from the tables of
// emulation/scaling/rules.hpp. A declaration that names a rule claims that the kernel follows it, so the check tests
// the kernel and not the rule. Casts use the codecs of core.
#include "core/text/nearest_name.hpp"
#include "emulation/scaling/scaling.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/quantiser_rules.hpp"
#include "experiments/check/pose/poser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

struct Rule {
    const Granularity* granularity = nullptr;
    const ScaleRule* rule = nullptr;
};

/// Scale rules that kernels use and a quantiser may declare, but that no policy offers.
constexpr ScaleRule kernel_rules[] = {
    {.name = "amax_over_max",
     .group =
         [](const definition::ScaleGroup& g) {
             const float decode = g.amax == 0 ? 1.0f : g.amax / g.max;
             return definition::GroupScale{1.0f / decode, decode};
         },
     .source = "the textbook's absmax scale",
     .summary = "amax / largest finite value in fp32; 1 if amax is 0"},
};

Rule rule_of(const Declaration& d, const Format& element) {
    if (d.granularity.empty())
        throw usage_error("the granularity of the scales is missing", "--granularity",
                          "declare one, such as tensor, 1x128 or mx32");
    const Granularity* granularity = find_granularity(d.granularity);
    if (granularity == nullptr)
        throw usage_error(fmt::format("unknown granularity '{}'", d.granularity), "--granularity",
                          "use one that `macheps policy words` lists");
    const ScaleRule* rule = d.scale_rule.empty() ? usual_rule(*granularity) : find_quantiser_rule(d.scale_rule);
    if (rule == nullptr)
        throw usage_error(fmt::format("unknown scale rule '{}'", d.scale_rule), "--scale-rule",
                          suggestion(d.scale_rule, quantiser_rules()));
    if (granularity->is_scaled() && !fits(*rule, *granularity))
        throw usage_error(
            fmt::format("{} needs scales of a different kind than {} computes", d.granularity, rule->name),
            "--scale-rule", fmt::format("use a rule such as {}", granularity->usual_rule));
    if (granularity->kind == ScaleKind::nvfp4 && !(element == e2m1fn))
        throw usage_error(fmt::format("the elements of {} must be e2m1fn", d.granularity), "--out",
                          "declare --out e2m1fn");
    return {granularity, rule};
}

/// Division of a matrix into groups of elements that share a scale.
struct Groups {
    std::int64_t rows = 0, columns = 0;  ///< of the matrix
    std::int64_t height = 0, width = 0;  ///< of a group
    ScaleGrid grid{};

    std::size_t of(std::int64_t row, std::int64_t column) const {
        return static_cast<std::size_t>(row / height * grid.columns + column / width);
    }
};

Groups groups_of(const Granularity& granularity, std::int64_t rows, std::int64_t columns) {
    const bool k_is_last = granularity.operand != "b";
    const std::int64_t down = k_is_last ? granularity.outer : granularity.k,
                       across = k_is_last ? granularity.k : granularity.outer;
    return {rows, columns, down == 0 ? rows : down, across == 0 ? columns : across,
            scale_grid(granularity, k_is_last, rows, columns)};
}

struct Scales {
    std::vector<definition::GroupScale> groups{};
    definition::GroupScale tensor{};
};

Scales scales_of(const Rule& how, const Groups& groups, const std::vector<double>& x, const Format& element) {
    const auto count = static_cast<std::size_t>(groups.grid.rows * groups.grid.columns);
    std::vector<float> amax(count);
    float all = 0;
    for (std::int64_t r = 0; r < groups.rows; ++r) {
        for (std::int64_t c = 0; c < groups.columns; ++c) {
            const auto value = static_cast<float>(x[static_cast<std::size_t>(r * groups.columns + c)]);
            float& largest = amax[groups.of(r, c)];
            largest = definition::join_amax(*how.rule, largest, value);
            all = definition::join_amax(*how.rule, all, value);
        }
    }
    Scales scales;
    if (how.granularity->kind == ScaleKind::nvfp4) scales.tensor = how.rule->tensor(all);
    for (const float largest : amax)
        scales.groups.push_back(definition::group_scale(element, *how.rule, largest, scales.tensor));
    return scales;
}

/// Compares the kernel's array `name` with the correct values: element i with wanted(i). Records a finding if any
/// element differs.
template <class Wanted>
void compare(const Poser& poser, Posed& posed, std::string_view name, std::size_t count, Wanted wanted) {
    if (poser.find(name) == nullptr) return;
    const Decoded got = poser.decode(name);
    if (got.values.size() != count)
        poser.bad(name, fmt::format("the shape {} does not fit", text_of(got.shape)),
                  fmt::format("save {} elements", count));
    Finding finding{.array = std::string(name)};
    for (std::size_t i = 0; i < count; ++i) {
        const auto want = static_cast<double>(wanted(i));
        if (got.values[i] == want || (std::isnan(want) && std::isnan(got.values[i]))) continue;
        if (finding.count++ > 0) continue;
        finding.index = static_cast<std::int64_t>(i);
        finding.got = got.values[i];
        finding.want = want;
    }
    if (finding.count > 0) posed.problem.findings.push_back(finding);
}

/// Returns true if the declared scale is a number and not the name of an array.
bool is_number(std::string_view given_scale) { return given_scale != "scale" && given_scale != "encode_scale"; }
/// Returns the declared scales: one number, or an array with one element for each group.
Scales given_scales(const Poser& poser, const Declaration& d, const Rule& how, std::size_t count) {
    Scales scales;
    const auto add = [&](double x) {
        const auto scale = static_cast<float>(x), inverse = 1 / scale;
        scales.groups.push_back(d.given_scale == "encode_scale" ? definition::GroupScale{scale, inverse}
                                                                : definition::GroupScale{inverse, scale});
    };
    if (how.granularity->kind == ScaleKind::nvfp4)
        throw Declined("given scales of nvfp4 blocks cannot be checked", "--given-scale");
    if (!d.scale_rule.empty())
        throw usage_error("a given scale cannot be combined with a scale rule", "--scale-rule",
                          "remove --scale-rule or --given-scale");
    if (is_number(d.given_scale)) {
        if (count != 1)
            throw usage_error(fmt::format("one number was given for {} groups", count), "--given-scale",
                              "pass an array (--given-scale scale), or declare --granularity tensor");
        add(declared_number(d.given_scale, "--given-scale", 1e-38, 3.4e38));
        return scales;
    }
    const Decoded array = poser.decode(d.given_scale);
    if (array.values.size() != count)
        poser.bad(d.given_scale, fmt::format("the shape {} does not fit {} groups", text_of(array.shape), count),
                  fmt::format("save {} elements, or declare another --granularity", count));
    for (const double x : array.values) add(x);
    return scales;
}

/// Returns the scales of all groups as an input of the operation. The input has one number if there is a single group,
/// otherwise one number for each element of x.
Input scale_input(std::string_view name, const Groups& groups, const Scales& scales,
                  float definition::GroupScale::*part) {
    const std::size_t count = scales.groups.size();
    Input input{.name = name, .axis = count == 1 ? Axis::whole : Axis::each};
    if (count == 1) input.values = {static_cast<double>(scales.groups.front().*part)};
    for (std::int64_t r = 0; count > 1 && r < groups.rows; ++r) {
        for (std::int64_t c = 0; c < groups.columns; ++c)
            input.values.held().push_back(static_cast<double>(scales.groups[groups.of(r, c)].*part));
    }
    input.neighbour = groups.grid.columns > 1 ? groups.width : groups.height * groups.columns;
    return input;
}

}  // namespace

std::vector<std::string_view> quantiser_rules() {
    std::vector<std::string_view> names;
    for (const ScaleRule& row : scale_rules) names.push_back(row.name);
    for (const ScaleRule& row : kernel_rules) names.push_back(row.name);
    return names;
}

const ScaleRule* find_quantiser_rule(std::string_view name) {
    for (const ScaleRule& row : kernel_rules) {
        if (row.name == name) return &row;
    }
    return find_scale_rule(name);
}

void pose_quantised(const Poser& poser, Posed& posed) {
    Problem& problem = posed.problem;
    const Decoded x = poser.decode("x");
    if (x.shape.empty()) poser.bad("x", "a single number has no last axis", "save an array with at least one axis");
    if (posed.out_shape != x.shape)
        poser.bad("out", fmt::format("the shape {} does not fit x {}", text_of(posed.out_shape), text_of(x.shape)),
                  fmt::format("save an array of shape {}", text_of(x.shape)));
    problem.columns = x.shape.back();
    problem.rows = product_of(x.shape, 0, x.shape.size() - 1);
    problem.group_rows = problem.rows;
    problem.declaration.saturates = true;
    problem.declaration.formats["x"].format = x.format;
    Declaration& d = problem.declaration;
    // If no granularity is declared and the given scale is a single number, it is the scale of the whole tensor.
    if (d.granularity.empty() && !d.given_scale.empty() &&
        (is_number(d.given_scale) || poser.decode(d.given_scale).values.size() == 1))
        d.granularity = "tensor";
    const Rule how = rule_of(d, problem.output);
    if (!how.granularity->is_scaled() && !d.given_scale.empty())
        throw usage_error("a quantiser with granularity none has no scale", "--given-scale",
                          "declare --granularity tensor, row or 1x128");
    if (how.granularity->is_scaled()) {
        const Groups groups = groups_of(*how.granularity, problem.rows, problem.columns);
        const auto count = static_cast<std::size_t>(groups.grid.rows * groups.grid.columns);
        const Scales scales = d.given_scale.empty() ? scales_of(how, groups, x.values, problem.output)
                                                    : given_scales(poser, d, how, count);
        problem.inputs.push_back(d.divides
                                     ? scale_input("group_divisor", groups, scales, &definition::GroupScale::decode)
                                     : scale_input("group_scale", groups, scales, &definition::GroupScale::encode));
        if (d.given_scale.empty()) {
            compare(poser, posed, "scale", count, [&](std::size_t i) { return scales.groups[i].decode; });
            compare(poser, posed, "encode_scale", count, [&](std::size_t i) { return scales.groups[i].encode; });
            compare(poser, posed, "tensor_scale", 1, [&](std::size_t) { return scales.tensor.decode; });
        }
    }
    problem.inputs.push_back({.name = "x", .axis = Axis::each, .values = x.values});
}

}  // namespace macheps::check
