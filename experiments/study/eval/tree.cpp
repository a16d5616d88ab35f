// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/tree.hpp"

#include "core/format_table.hpp"
#include "experiments/study/eval/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace macheps::study {

namespace {

constexpr OpRow rows_of_ops[] = {
    {Op::add, "+", -1},
    {Op::sub, "-", 2},
    {Op::mul, "*", -1},
    {Op::div, "/", 2},
    {Op::neg, "neg", 1},
    {Op::fma, "fma", 3},
    {Op::sqrt, "sqrt", 1},
    {Op::fabs, "fabs", 1},
    {Op::fmin, "fmin", 2},
    {Op::fmax, "fmax", 2},
    {Op::fdim, "fdim", 2},
    {Op::copysign, "copysign", 2},
    {Op::floor, "floor", 1},
    {Op::ceil, "ceil", 1},
    {Op::trunc, "trunc", 1},
    {Op::round, "round", 1},
    {Op::nearbyint, "nearbyint", 1},
    {Op::exp, "exp", 1},
    {Op::exp2, "exp2", 1},
    {Op::expm1, "expm1", 1},
    {Op::log, "log", 1},
    {Op::log2, "log2", 1},
    {Op::log10, "log10", 1},
    {Op::log1p, "log1p", 1},
    {Op::sin, "sin", 1},
    {Op::cos, "cos", 1},
    {Op::tan, "tan", 1},
    {Op::asin, "asin", 1},
    {Op::acos, "acos", 1},
    {Op::atan, "atan", 1},
    {Op::sinh, "sinh", 1},
    {Op::cosh, "cosh", 1},
    {Op::tanh, "tanh", 1},
    {Op::asinh, "asinh", 1},
    {Op::acosh, "acosh", 1},
    {Op::atanh, "atanh", 1},
    {Op::cbrt, "cbrt", 1},
    {Op::erf, "erf", 1},
    {Op::erfc, "erfc", 1},
    {Op::tgamma, "tgamma", 1},
    {Op::lgamma, "lgamma", 1},
    {Op::pow, "pow", 2},
    {Op::atan2, "atan2", 2},
    {Op::hypot, "hypot", 2},
    {Op::fmod, "fmod", 2},
    {Op::remainder, "remainder", 2},
    {Op::less, "<", -1},
    {Op::less_equal, "<=", -1},
    {Op::greater, ">", -1},
    {Op::greater_equal, ">=", -1},
    {Op::equal, "==", -1},
    {Op::unequal, "!=", -1},
    {Op::both, "and", -1},
    {Op::either, "or", -1},
    {Op::negation, "not", 1},
    {Op::is_nan, "isnan", 1},
    {Op::is_inf, "isinf", 1},
    {Op::is_finite, "isfinite", 1},
    {Op::is_normal, "isnormal", 1},
    {Op::sign_bit, "signbit", 1},
};

std::string_view op_name(Op op) {
    for (const OpRow& row : rows_of_ops) {
        if (row.op == op) return row.op == Op::neg ? "-" : row.name;
    }
    return {};
}

struct PrecisionRow {
    std::string_view name;
    Format format;
};
constexpr PrecisionRow precisions[] = {{"binary16", fp16}, {"binary32", fp32}, {"binary64", fp64}};

struct RoundRow {
    std::string_view name;
    Round round;
};
constexpr RoundRow rounds[] = {{"nearestEven", Round::nearest_even},
                               {"nearestAway", Round::nearest_away},
                               {"toPositive", Round::up},
                               {"toNegative", Round::down},
                               {"toZero", Round::toward_zero}};

std::string context_text(const RoundingContext& context) {
    std::string text;
    if (context.format) {
        const auto row = std::find_if(std::begin(precisions), std::end(precisions),
                                      [&](const PrecisionRow& r) { return r.format == *context.format; });
        text += fmt::format(" :precision {}", row == std::end(precisions) ? format_name(*context.format) : row->name);
    }
    for (const RoundRow& row : rounds) {
        if (context.round == row.round) text += fmt::format(" :round {}", row.name);
    }
    return text;
}

/// Returns a node as FPCore text. `names` has a name for each slot. A binding is named `t` followed by the number of
/// its slot.
std::string node_text(const Expression& expression, const Node& node, std::vector<std::string>& names) {
    const auto child = [&](std::size_t i) { return node_text(expression, node.children[i], names); };
    std::string out;
    switch (node.kind) {
        case Node::Kind::number:
        case Node::Kind::constant:
            return node.text;
        case Node::Kind::variable:
            return names[static_cast<std::size_t>(node.slot)];
        case Node::Kind::context:
            return fmt::format("(!{} {})", context_text(expression.contexts[static_cast<std::size_t>(node.slot)]),
                               child(0));
        case Node::Kind::cast:
            return fmt::format("(cast {})", child(0));
        case Node::Kind::call: {
            out = fmt::format("({}", op_name(node.op));
            for (std::size_t i = 0; i < node.children.size(); ++i) out += " " + child(i);
            return out + ")";
        }
        case Node::Kind::choice:
            return fmt::format("(if {} {} {})", child(0), child(1), child(2));
        case Node::Kind::let: {
            for (std::size_t i = 0; i < node.slots.size(); ++i) {
                out += fmt::format("{}[{} {}]", i == 0 ? "" : " ", names[static_cast<std::size_t>(node.slots[i])],
                                   child(i));
            }
            return fmt::format("(let{} ({}) {})", node.is_sequential ? "*" : "", out, child(node.slots.size()));
        }
        case Node::Kind::loop: {
            const std::size_t count = node.slots.size();
            for (std::size_t i = 0; i < count; ++i) {
                out += fmt::format("{}[{} {} {}]", i == 0 ? "" : " ", names[static_cast<std::size_t>(node.slots[i])],
                                   child(1 + i), child(1 + count + i));
            }
            return fmt::format("(while{} {} ({}) {})", node.is_sequential ? "*" : "", child(0), out,
                               child(1 + 2 * count));
        }
    }
    return out;
}

}  // namespace

std::span<const OpRow> op_rows() { return rows_of_ops; }

const OpRow* find_op(std::string_view name) {
    const auto row =
        std::find_if(std::begin(rows_of_ops), std::end(rows_of_ops), [&](const OpRow& r) { return r.name == name; });
    return row == std::end(rows_of_ops) ? nullptr : row;
}

std::optional<Format> find_precision(std::string_view name) {
    for (const PrecisionRow& row : precisions) {
        if (row.name == name) return row.format;
    }
    const NamedFormat* known = find_format(name);
    return known != nullptr ? std::optional(known->format) : ieee_format(name);
}

std::optional<Format> float_precision(std::string_view exponent_bits, std::string_view bits) {
    int exponent = 0, width = 0;
    const auto is_read = [](std::string_view text, int& out) {
        const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), out);
        return error == std::errc{} && last == text.data() + text.size();
    };
    if (!is_read(exponent_bits, exponent) || !is_read(bits, width)) return std::nullopt;
    if (exponent == fp64.exponent_bits() && width == fp64.bits) return fp64;
    return ieee_format(fmt::format("e{}m{}", exponent, width - 1 - exponent));
}

std::optional<Round> find_round(std::string_view name) {
    for (const RoundRow& row : rounds) {
        if (row.name == name) return row.round;
    }
    return std::nullopt;
}

bool is_constant(std::string_view name) {
    constexpr std::string_view names[] = {"PI",      "E",        "LN2",    "LN10",   "LOG2E",      "LOG10E",
                                          "PI_2",    "PI_4",     "M_1_PI", "M_2_PI", "M_2_SQRTPI", "SQRT2",
                                          "SQRT1_2", "INFINITY", "NAN",    "TRUE",   "FALSE"};
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool gives_truth(const Node& node) {
    if (node.kind == Node::Kind::context) return gives_truth(node.children.front());
    if (node.kind == Node::Kind::call) return is_truth(node.op);
    return node.kind == Node::Kind::constant && (node.text == "TRUE" || node.text == "FALSE");
}

std::string wrong_arguments(const Node& node) {
    const auto row =
        std::find_if(std::begin(rows_of_ops), std::end(rows_of_ops), [&](const OpRow& r) { return r.op == node.op; });
    const auto count = static_cast<int>(node.children.size());
    if (row->arguments < 0 ? count == 0 : count != row->arguments) {
        return fmt::format("{} takes {} but has {}", row->name,
                           row->arguments < 0    ? "at least one argument"
                           : row->arguments == 1 ? "one argument"
                                                 : fmt::format("{} arguments", row->arguments),
                           count);
    }
    const bool wants_truth = node.op == Op::both || node.op == Op::either || node.op == Op::negation;
    for (const Node& child : node.children) {
        if (gives_truth(child) == wants_truth) continue;
        return fmt::format("{} takes {}", row->name,
                           wants_truth ? "comparisons, not numbers" : "numbers, not comparisons");
    }
    return {};
}

std::string fpcore_text(const Expression& expression) {
    std::vector<std::string> names = expression.inputs;
    for (int slot = static_cast<int>(names.size()); slot < expression.slots; ++slot) {
        std::string name = fmt::format("t{}", slot);
        while (std::find(expression.inputs.begin(), expression.inputs.end(), name) != expression.inputs.end())
            name += '_';
        names.push_back(std::move(name));
    }
    std::string inputs, name;
    for (const std::string& input : expression.inputs) inputs += (inputs.empty() ? "" : " ") + input;
    if (!expression.name.empty()) name = fmt::format(" :name \"{}\"", expression.name);
    if (!expression.precondition.empty())
        name += fmt::format(" :pre {}", node_text(expression, expression.precondition.front(), names));
    name += context_text(expression.own);
    return fmt::format("(FPCore ({}){} {})", inputs, name, node_text(expression, expression.body, names));
}

}  // namespace macheps::study
