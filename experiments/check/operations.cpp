// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/operations.hpp"

#include "core/error.hpp"
#include "core/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps::check {

namespace {

// --- matrix products

constexpr ArrayRole gemm_arrays[] = {{"a_scale", Axis::row},
                                     {"b_scale", Axis::column},
                                     {"bias", Axis::column},
                                     {"c", Axis::each},
                                     {"residual", Axis::each}};

Value gemm(Listing& l) {
    Nodes& n = l.nodes;
    Value y = n.product();
    // Decode scales meet the sum one by one, or multiplied with each other: as many roundings either way.
    for (const char* scale : {"a_scale", "b_scale"}) {
        if (const auto s = l.input(scale)) y = n.multiply(y, *s);
    }
    if (l.declaration.alpha != 1 && l.defect.missing != "alpha") y = n.multiply(y, n.constant(l.declaration.alpha));
    if (const auto bias = l.input("bias")) y = n.accumulate(y, *bias);
    if (const auto c = l.input("c")) {
        y = n.accumulate(y, l.declaration.beta == 1 || l.defect.missing == "beta" ? *c : n.multiply(*c, n.constant(l.declaration.beta)));
    }
    if (const auto residual = l.input("residual")) y = n.add(y, *residual);
    return y;
}

// --- operations on rows

constexpr ArrayRole plain_arrays[] = {{"x", Axis::each, true}};
constexpr ArrayRole norm_arrays[] = {{"x", Axis::each, true}, {"gain", Axis::column}, {"shift", Axis::column}};

Value sum(Listing& l) { return l.nodes.sum(*l.input("x"), l.defect.dropped); }

Value mean(Listing& l) { return l.mean(*l.input("x")); }

Value softmax(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x");
    const Value e = n.exponential(n.subtract(x, n.greatest(x)));
    // The quotient may be a product with the rounded reciprocal, of a division that is not the best.
    return n.divide(e, n.sum(e, l.defect.dropped), 4);
}

Value log_softmax(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x"), greatest = n.greatest(x), below = n.subtract(x, greatest);
    const Value log = n.logarithm(n.sum(n.exponential(below), l.defect.dropped));
    // (x - m) - log s, or x - (m + log s).
    return n.either(n.subtract(below, log), n.subtract(x, n.add(greatest, log)));
}

Value gained(Listing& l, Value y) {
    if (const auto gain = l.input("gain")) y = l.nodes.multiply(y, *gain);
    if (const auto shift = l.input("shift")) y = l.nodes.add(y, *shift);
    return y;
}

Value rms_norm(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x");
    return gained(l, n.multiply(x, n.inverse_root(n.add(l.mean(n.multiply(x, x)), l.eps()))));
}

Value layer_norm(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x"), d = n.subtract(x, l.mean(x));
    return gained(l, n.multiply(d, n.inverse_root(n.add(l.mean(n.multiply(d, d)), l.eps()))));
}

constexpr Operation operations[] = {
    {.name = "gemm",
     .summary = "alpha (a b) a_scale b_scale + bias + beta c + residual; a [m,k], b [k,n], or batches of them",
     .arrays = gemm_arrays,
     .list = gemm,
     .is_product = true,
     .has_reduction = true},
    {.name = "sum",
     .summary = "over the last axis of x",
     .arrays = plain_arrays,
     .list = sum,
     .has_reduction = true,
     .is_one_per_row = true},
    {.name = "mean",
     .summary = "over the last axis of x",
     .arrays = plain_arrays,
     .list = mean,
     .has_reduction = true,
     .is_one_per_row = true,
     .has_mean = true},
    {.name = "softmax",
     .summary = "over the last axis of x",
     .arrays = plain_arrays,
     .list = softmax,
     .has_reduction = true},
    {.name = "log_softmax",
     .summary = "over the last axis of x",
     .arrays = plain_arrays,
     .list = log_softmax,
     .has_reduction = true},
    {.name = "rmsnorm",
     .summary = "x / sqrt(mean x^2 + eps) gain + shift, over the last axis",
     .arrays = norm_arrays,
     .list = rms_norm,
     .has_reduction = true,
     .has_eps = true,
     .has_mean = true},
    {.name = "layernorm",
     .summary = "(x - mean) / sqrt(variance + eps) gain + shift, over the last axis",
     .arrays = norm_arrays,
     .list = layer_norm,
     .has_reduction = true,
     .has_eps = true,
     .has_mean = true},
};

constexpr FunctionTable tables[] = {
    {"cuda", 2, 1, 2, "CUDA programming guide, 13.1: from tests, no guarantee"},
    {"exact", 0.5, 0.5, 0.5, "correctly rounded"},
};

template <class Row>
const Row& find_row(std::span<const Row> rows, std::string_view name, std::string_view what, std::string_view option) {
    std::vector<std::string_view> names;
    for (const Row& row : rows) {
        if (row.name == name) return row;
        names.push_back(row.name);
    }
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("unknown {} '{}'", what, name),
                 .where = std::string(option),
                 .fix = near.empty() ? fmt::format("one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean '{}'?", near),
                 .exit = Exit::usage});
}

}  // namespace

std::optional<Value> Listing::input(std::string_view name) {
    if (name == defect.missing) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].name == name) return nodes.input(static_cast<int>(i), inputs[i].axis);
    }
    return {};
}

std::span<const Operation> all_operations() { return operations; }
const Operation& find_operation(std::string_view name) { return find_row(all_operations(), name, "operation", "--op"); }
std::span<const FunctionTable> function_tables() { return tables; }
const FunctionTable& find_functions(std::string_view name) {
    return find_row(function_tables(), name, "table of functions", "--functions");
}

}  // namespace macheps::check
