// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/declare/operations.hpp"

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/check/declare/listings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::check {

namespace listing {

Value gemm(Listing& l) {
    Nodes& n = l.nodes;
    Value y = n.product();
    // Kernels multiply the sum by the two decode scales in turn, or by the product of the scales. Both ways need the
    // same number of roundings.
    for (const char* scale : {"a_scale", "b_scale"}) {
        if (const auto s = l.input(scale)) y = n.multiply(y, *s);
    }
    if (l.declaration.alpha != 1 && l.defect.missing != "alpha") y = n.multiply(y, n.constant(l.declaration.alpha));
    if (const auto bias = l.input("bias")) y = n.accumulate(y, *bias);
    if (const auto c = l.input("c")) {
        const bool is_plain = l.declaration.beta == 1 || l.defect.missing == "beta";
        y = n.accumulate(y, is_plain ? *c : n.multiply(*c, n.constant(l.declaration.beta)));
    }
    if (l.defect.missing != "activation") y = activated(n, l.declaration.activation, y, l.form());
    if (const auto residual = l.input("residual")) y = n.add(y, *residual);
    return y;
}

}  // namespace listing

namespace {

constexpr ArrayRole gemm_arrays[] = {{"a_scale", Axis::row},
                                     {"b_scale", Axis::column},
                                     {"bias", Axis::column},
                                     {"c", Axis::each},
                                     {"residual", Axis::each},
                                     {"groups", Axis::whole, false, true},
                                     {"offsets", Axis::whole, false, true}};
constexpr ArrayRole plain_arrays[] = {{"x", Axis::each, true}};
constexpr ArrayRole norm_arrays[] = {{"x", Axis::each, true}, {"gain", Axis::column}, {"shift", Axis::column}};
constexpr ArrayRole gated_arrays[] = {{"x", Axis::each}, {"gate", Axis::each}, {"up", Axis::each}};
constexpr ArrayRole rotary_arrays[] = {{"x", Axis::each, true}, {"cos", Axis::each, true}, {"sin", Axis::each, true}};
constexpr ArrayRole embedding_arrays[] = {{"table", Axis::gathered, true}, {"index", Axis::row, true}};
constexpr ArrayRole loss_arrays[] = {{"x", Axis::each, true}, {"target", Axis::row, true}, {"divisor", Axis::whole}};
constexpr ArrayRole quantise_arrays[] = {
    {"x", Axis::each, true}, {"scale", Axis::each}, {"encode_scale", Axis::each}, {"tensor_scale", Axis::whole}};

/// Returns an operation on the elements of x, without a reduction.
Operation on_elements(std::string_view name, std::string_view summary, Value (*list)(Listing&),
                      std::span<const MutantRow> mutants = {}) {
    return {.name = name,
            .summary = summary,
            .arrays = plain_arrays,
            .list = list,
            .mutants = mutants,
            .forms = listing::forms_of(name)};
}
/// Returns an operation that reduces each row of x to one number.
Operation of_rows(std::string_view name, std::string_view summary, Value (*list)(Listing&),
                  std::span<const MutantRow> mutants) {
    return {.name = name,
            .summary = summary,
            .arrays = plain_arrays,
            .list = list,
            .has_reduction = true,
            .is_one_per_row = true,
            .mutants = mutants};
}
Operation gated(std::string_view name, std::string_view summary, Value (*list)(Listing&),
                std::span<const MutantRow> mutants, std::string_view activation) {
    return {.name = name,
            .summary = summary,
            .arrays = gated_arrays,
            .list = list,
            .layout = Layout::gated,
            .mutants = mutants,
            .has_inner = true,
            .forms = listing::forms_of(activation)};
}

std::vector<Operation> row_operations() {
    using namespace listing;
    std::vector<Operation> all{
        of_rows("sum", "sum over the last axis of x", sum, sum_mutants()),
        of_rows("mean", "mean over the last axis of x", mean, sum_mutants()),
        of_rows("max", "maximum along the last axis of x", greatest, extreme_mutants()),
        of_rows("min", "minimum along the last axis of x", least, extreme_mutants()),
        of_rows("amax", "largest magnitude along the last axis of x", amax, amax_mutants()),
        of_rows("argmax", "index of the largest element along the last axis of x; any, if several are equal", greatest,
                extreme_mutants()),
        of_rows("norm2", "square root of the sum of squares over the last axis of x", norm, norm2_mutants()),
        of_rows("logsumexp", "log of the sum of e^x over the last axis", log_sum_exp, sum_mutants()),
        {.name = "softmax",
         .summary = "softmax over the last axis of x",
         .arrays = plain_arrays,
         .list = softmax,
         .has_reduction = true,
         .mutants = sum_mutants(),
         .has_softmax = true,
         .forms = softmax_forms()},
        {.name = "log_softmax",
         .summary = "logarithm of the softmax over the last axis of x",
         .arrays = plain_arrays,
         .list = log_softmax,
         .has_reduction = true,
         .mutants = sum_mutants(),
         .has_inner = true,
         .has_softmax = true,
         .forms = log_softmax_forms()},
        {.name = "rmsnorm",
         .summary = "x / sqrt(mean x^2 + eps) gain + shift, over the last axis",
         .arrays = norm_arrays,
         .list = rms_norm,
         .has_reduction = true,
         .has_eps = true,
         .has_mean = true,
         .mutants = norm_mutants(),
         .has_inner = true},
        {.name = "layernorm",
         .summary = "(x - mean) / sqrt(variance + eps) gain + shift, over the last axis",
         .arrays = norm_arrays,
         .list = layer_norm,
         .has_reduction = true,
         .has_eps = true,
         .has_mean = true,
         .mutants = norm_mutants(),
         .has_inner = true,
         .has_variance = true},
        {.name = "cross_entropy",
         .summary = "log sum e^x - x at target, over the last axis; optionally the mean or sum of all rows",
         .arrays = loss_arrays,
         .list = cross_entropy,
         .has_reduction = true,
         .is_one_per_row = true,
         .layout = Layout::classes,
         .mutants = loss_mutants(),
         .across = reduced_loss,
         .has_inner = true,
         .has_softmax = true,
         .forms = loss_forms()},
    };
    for (Operation& operation : all) {
        operation.has_extreme = operation.list == greatest || operation.list == least || operation.list == amax;
        operation.has_mean = operation.has_mean || operation.name == "mean";
        operation.gives_index = operation.name == "argmax";
        operation.has_softmax = operation.has_softmax || operation.name == "logsumexp";
        operation.has_inner = operation.has_inner || operation.name == "logsumexp";
    }
    return all;
}

std::vector<Operation> element_operations() {
    using namespace listing;
    return {
        on_elements("relu", "max(x, 0); NaN stays NaN", relu),
        on_elements("gelu", "x (1 + erf(x / sqrt 2)) / 2", gelu, gelu_mutants()),
        on_elements("gelu_tanh", "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2", gelu_tanh, gelu_tanh_mutants()),
        on_elements("silu", "x / (1 + e^-x)", silu),
        on_elements("sigmoid", "1 / (1 + e^-x)", sigmoid),
        on_elements("tanh", "hyperbolic tangent of x", tanh),
        on_elements("exp", "e^x", exp),
        gated("swiglu", "silu(gate) up; gate and up, or x with both as halves of its last axis", swiglu,
              gated_mutants(), "silu"),
        gated("geglu", "gelu(gate) up, with erf; gate and up, or x with both as halves", geglu, erf_gated_mutants(),
              "gelu"),
        gated("geglu_tanh", "gelu_tanh(gate) up; gate and up, or x with both as halves", geglu_tanh,
              tanh_gated_mutants(), "gelu_tanh"),
        {.name = "rope",
         .summary =
             "x cos + rotated x sin; the tables cover the last axis or half of it, and are repeated over missing axes",
         .arrays = rotary_arrays,
         .list = rotary,
         .layout = Layout::rotary,
         .mutants = rotary_mutants(),
         .has_inner = true},
        {.name = "embedding",
         .summary = "the rows of table that index selects",
         .arrays = embedding_arrays,
         .list = embedding,
         .layout = Layout::gathered,
         .mutants = embedding_mutants(),
         .is_bitwise = true},
        {.name = "cast",
         .summary = "x in the format of out; the bits must be exact",
         .arrays = plain_arrays,
         .list = cast,
         .is_bitwise = true},
        {.name = "quantize",
         .summary =
             "x times the scale of its group, saturated to the format of out; the bits of out and scale must be exact",
         .arrays = quantise_arrays,
         .list = quantise,
         .layout = Layout::quantised,
         .mutants = quantise_mutants(),
         .is_bitwise = true},
    };
}

std::vector<Operation> make_operations() {
    std::vector<Operation> all{{.name = "gemm",
                                .summary = "activation(alpha (a b) a_scale b_scale + bias + beta c) + residual; a "
                                           "[m,k], b [k,n], optionally in batches or groups",
                                .arrays = gemm_arrays,
                                .list = listing::gemm,
                                .is_product = true,
                                .has_reduction = true,
                                .layout = Layout::product,
                                .forms = listing::epilogue_forms()}};
    for (const Operation& operation : row_operations()) all.push_back(operation);
    for (const Operation& operation : element_operations()) all.push_back(operation);
    return all;
}

}  // namespace

std::optional<Value> Listing::input(std::string_view name) {
    if (name == defect.missing) return {};
    const int place = array(name);
    if (place < 0) return {};
    return nodes.input(place, inputs[static_cast<std::size_t>(place)].axis);
}

int Listing::array(std::string_view name) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].name == name) return static_cast<int>(i);
    }
    return -1;
}

double Listing::number(std::string_view name) const {
    return inputs[static_cast<std::size_t>(array(name))].values.front();
}

Value Listing::sum(Value x, double roundings) {
    if (defect.accumulator) return nodes.narrow_sum(x, *defect.accumulator);
    return nodes.sum(x, defect.dropped, parse_sum_order(declaration.sum_order), roundings);
}

Value Listing::greatest(Value x) { return nodes.greatest(x, defect.dropped, defect.start); }
Value Listing::least(Value x) { return nodes.least(x, defect.dropped, defect.start); }

Value Listing::inner(Value x) {
    if (defect.inner) return nodes.convert(x, *defect.inner);
    return declaration.inner ? nodes.round(x, *declaration.inner) : x;
}

std::span<const Operation> all_operations() {
    static const std::vector<Operation> operations = make_operations();
    return operations;
}

std::span<const std::string_view> later_operations() {
    static constexpr std::string_view names[] = {"adam",  "adamw",       "attention", "convolution",
                                                 "graph", "scatter_add", "top_k",     "dropout"};
    return names;
}
bool is_later_operation(std::string_view name) {
    const std::span<const std::string_view> names = later_operations();
    return std::find(names.begin(), names.end(), name) != names.end();
}

const Operation& find_operation(std::string_view name) {
    std::vector<std::string_view> names;
    for (const Operation& row : all_operations()) {
        if (row.name == name) return row;
        names.push_back(row.name);
    }
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("unknown operation '{}'", name),
                 .where = "--op",
                 .fix = near.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean '{}'?", near),
                 .exit = Exit::usage});
}

}  // namespace macheps::check
