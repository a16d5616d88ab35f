// SPDX-License-Identifier: Apache-2.0
// Operations on single elements: activations, gates, rotations, gathers, casts.
#include "experiments/check/declare/listings.hpp"

#include <algorithm>
#include <vector>

namespace macheps::check::listing {

namespace {

/// Returns x (1 + erf(x / sqrt 2)) / 2.
Value erf_gelu(Nodes& n, Value x) {
    // Kernels compute x sqrt(1/2), or x / sqrt 2 by a reciprocal. They round the constant, and make at most two more
    // roundings.
    const Value root_half = n.irrational(0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55);
    const Value sum = n.one_and(n.error(n.multiply(x, root_half, 2)));
    return n.multiply(n.multiply(x, n.constant(0.5), 0), sum, 2);
}

/// Returns sqrt(2 / pi) (x + 0.044715 x^3).
Value gelu_argument(Nodes& n, Value x) {
    const Value root = n.irrational(0x1.9884533d43651p-1, -0x1.cbc0d30ebfd15p-55);
    const Value cube = n.multiply(n.multiply(x, x), x),
                term = n.multiply(cube, n.irrational(0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59));  // 0.044715
    return n.multiply(n.add(x, term), root, 2);  // kernels also compute x (1 + 0.044715 x^2)
}

/// Returns x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
Value tanh_gelu(Nodes& n, Value x) {
    const Value argument = gelu_argument(n, x);
    return n.multiply(n.multiply(x, n.constant(0.5), 0), n.one_and(n.tangent(argument)), 2);
}

/// Returns (1 + tanh(x / 2)) / 2, which equals 1 / (1 + e^-x).
Value sigmoid_by_tanh(Nodes& n, Value x) {
    const Value half = n.constant(0.5);
    return n.multiply(n.one_and(n.tangent(n.multiply(x, half, 0))), half, 0);
}

/// Returns tanh from an exponential: (e^2x - 1) / (e^2x + 1), 1 - 2 / (1 + e^2x), or 2 / (1 + e^-2x) - 1. All three
/// formulas cancel near zero. The last one is 2 s - 1, where s is the sigmoid of 2x. The first formula loses no more
/// than the last one.
Value tanh_by_exp(Nodes& n, Value x) {
    const Value one = n.constant(1), two = n.constant(2);
    const Value below = n.multiply(n.sigmoid(n.multiply(x, n.constant(-2), 0)), two, 0),
                above = n.multiply(n.sigmoid(n.multiply(x, two, 0)), two, 0);
    return n.either(n.subtract(above, one), n.subtract(one, below));
}

Value rectified(Nodes& n, Value x, std::string_view) { return n.larger(x, n.constant(0)); }
Value gelu_of(Nodes& n, Value x, std::string_view) { return erf_gelu(n, x); }
Value gelu_tanh_of(Nodes& n, Value x, std::string_view form) {
    return form == "sigmoid" ? n.multiply(x, n.sigmoid(n.multiply(gelu_argument(n, x), n.constant(2), 0)))
                             : tanh_gelu(n, x);
}
Value sigmoid_of(Nodes& n, Value x, std::string_view form) {
    return form == "tanh" ? sigmoid_by_tanh(n, x) : n.sigmoid(x);
}
Value silu_of(Nodes& n, Value x, std::string_view form) {
    // The form x / (1 + e^-x) has one rounding fewer than the product of x with a sigmoid.
    return n.multiply(x, form == "tanh" ? sigmoid_by_tanh(n, x) : n.sigmoid(x), form == "quotient" ? 0 : 1);
}
Value tanh_of(Nodes& n, Value x, std::string_view form) { return form == "exp" ? tanh_by_exp(n, x) : n.tangent(x); }

constexpr Form silu_forms[] = {{"sigmoid", "x sigmoid(x), or x / (1 + e^-x)"},
                               {"quotient", "only x / (1 + e^-x)"},
                               {"tanh", "x (1 + tanh(x / 2)) / 2", true}};
constexpr Form gelu_tanh_forms[] = {{"tanh", "x (1 + tanh t) / 2, where t = sqrt(2 / pi) (x + 0.044715 x^3)", true},
                                    {"sigmoid", "x / (1 + e^-2t)"}};
constexpr Form sigmoid_forms[] = {{"exp", "1 / (1 + e^-x)"}, {"tanh", "(1 + tanh(x / 2)) / 2", true}};
constexpr Form tanh_forms[] = {{"direct", "a function that computes tanh directly"},
                               {"exp", "from e^2x, with cancellation near zero", true}};

constexpr Activation activation_rows[] = {
    {"relu", rectified},
    {"gelu", gelu_of},
    {"gelu_tanh", gelu_tanh_of, gelu_tanh_forms},
    {"silu", silu_of, silu_forms},
    {"sigmoid", sigmoid_of, sigmoid_forms},
    {"tanh", tanh_of, tanh_forms},
};

/// Returns activation(gate) times up. The activation may be rounded to the inner format before the multiplication.
Value gated(Listing& l, std::string_view activation) {
    const Value gate = *l.input(l.defect.exchanged ? "up" : "gate"), up = *l.input(l.defect.exchanged ? "gate" : "up");
    return l.nodes.multiply(l.inner(activated(l.nodes, activation, gate, l.form())), up);
}

const MutantRow exchanged{"gate and up exchanged", "operation", {.exchanged = true}};
const MutantRow inner_gate{"activation rounded to bf16 before it meets up", "precision", {.inner = bf16}, has_no_inner};
const MutantRow tanh_for_erf{"tanh form for erf", "operation", {.has_other_form = true}};
const MutantRow erf_for_tanh{"erf for the tanh form", "operation", {.has_other_form = true}};

}  // namespace

std::span<const Activation> activations() { return activation_rows; }
const Activation* find_activation(std::string_view name) {
    for (const Activation& row : activation_rows) {
        if (row.name == name) return &row;
    }
    return nullptr;
}
std::span<const Form> epilogue_forms() {
    static const std::vector<Form> forms = [] {
        std::vector<Form> all;
        for (const std::string_view name : {"silu", "gelu_tanh"}) {
            for (const Form& form : forms_of(name)) {
                if (std::none_of(all.begin(), all.end(), [&](const Form& other) { return other.name == form.name; }))
                    all.push_back(form);
            }
        }
        return all;
    }();
    return forms;
}
std::span<const Form> forms_of(std::string_view activation) {
    const Activation* row = find_activation(activation);
    return row == nullptr ? std::span<const Form>{} : row->forms;
}
std::span<const Form> forms_of(const Declaration& declaration) {
    return declaration.operation->is_product ? forms_of(declaration.activation) : declaration.operation->forms;
}
Value activated(Nodes& n, std::string_view name, Value x, std::string_view form) {
    const Activation* row = find_activation(name);
    return row == nullptr ? x : row->list(n, x, form);
}

namespace {

/// Lists an operation that applies the activation `name` to x. `other` is the activation that a wrong kernel computes
/// instead.
Value activation_of_x(Listing& l, std::string_view name, std::string_view other = {}) {
    return activated(l.nodes, l.defect.has_other_form && !other.empty() ? other : name, *l.input("x"), l.form());
}

}  // namespace

Value relu(Listing& l) { return activation_of_x(l, "relu"); }
Value gelu(Listing& l) { return activation_of_x(l, "gelu", "gelu_tanh"); }
Value gelu_tanh(Listing& l) { return activation_of_x(l, "gelu_tanh", "gelu"); }
Value silu(Listing& l) { return activation_of_x(l, "silu"); }
Value sigmoid(Listing& l) { return activation_of_x(l, "sigmoid"); }
Value tanh(Listing& l) { return activation_of_x(l, "tanh"); }
Value exp(Listing& l) { return l.nodes.exponential(*l.input("x")); }

Value swiglu(Listing& l) { return gated(l, "silu"); }
Value geglu(Listing& l) { return gated(l, l.defect.has_other_form ? "gelu_tanh" : "gelu"); }
Value geglu_tanh(Listing& l) { return gated(l, l.defect.has_other_form ? "gelu" : "gelu_tanh"); }

/// Lists the nodes that compute x cos + (rotated x) sin. In the wrong kernel, x and the tables cos and sin have the
/// other layout of pairs.
Value rotary(Listing& l) {
    Nodes& n = l.nodes;
    const bool has_pairs = l.declaration.has_pairs != l.defect.has_other_form;
    const Value x = *l.input("x"), turned = n.move(x, has_pairs ? Move::turn_pairs : Move::turn_halves);
    Value cos = *l.input("cos"), sin = *l.input("sin");
    if (l.defect.has_other_form) {
        cos = n.move(cos, has_pairs ? Move::to_pairs : Move::to_halves);
        sin = n.move(sin, has_pairs ? Move::to_pairs : Move::to_halves);
    }
    const Value by_cos = l.inner(n.multiply(x, cos)), by_sin = l.inner(n.multiply(turned, sin));
    return l.defect.is_negative ? n.subtract(by_cos, by_sin) : n.add(by_cos, by_sin);
}

Value embedding(Listing& l) { return *l.input("table"); }
Value cast(Listing& l) { return *l.input("x"); }
/// Lists the nodes that compute the value before the cast: x times the encode scale of its group, or x divided by the
/// decode scale, rounded to fp32.
Value quantise(Listing& l) {
    const Value x = *l.input("x");
    Nodes& n = l.nodes;
    // Each step rounds only once, when it converts its result to fp32. This is also correct for a quotient, because the
    // quotient of two fp32 numbers is never midway between two fp32 numbers.
    const auto times = [&](Value scale) { return n.convert(n.multiply(x, scale, 0), fp32); };
    const auto over = [&](Value scale) { return n.convert(n.divide(x, scale, 0), fp32); };
    const auto inverse = [&](Value scale) { return n.convert(n.divide(n.constant(1), scale, 0), fp32); };
    if (const auto encode = l.input("group_scale"))
        return l.defect.has_other_form ? over(inverse(*encode)) : times(*encode);
    if (const auto decode = l.input("group_divisor"))
        return l.defect.has_other_form ? times(inverse(*decode)) : over(*decode);
    return x;
}

std::span<const MutantRow> gelu_mutants() {
    static const std::vector<MutantRow> rows{tanh_for_erf};
    return rows;
}
std::span<const MutantRow> gelu_tanh_mutants() {
    static const std::vector<MutantRow> rows{erf_for_tanh};
    return rows;
}
std::span<const MutantRow> gated_mutants() {
    static const std::vector<MutantRow> rows{exchanged, inner_gate};
    return rows;
}
std::span<const MutantRow> erf_gated_mutants() {
    static const std::vector<MutantRow> rows{exchanged, tanh_for_erf, inner_gate};
    return rows;
}
std::span<const MutantRow> tanh_gated_mutants() {
    static const std::vector<MutantRow> rows{exchanged, erf_for_tanh, inner_gate};
    return rows;
}
std::span<const MutantRow> rotary_mutants() {
    static const std::vector<MutantRow> rows{
        {"the other layout of pairs", "operation", {.has_other_form = true}},
        {"turned the other way", "operation", {.is_negative = true}},
        {"products rounded to bf16 before their sum", "precision", {.inner = bf16}, has_no_inner},
    };
    return rows;
}
std::span<const MutantRow> embedding_mutants() {
    static const std::vector<MutantRow> rows{{"index + 1", "operation", {.next = "table"}}};
    return rows;
}
std::span<const MutantRow> quantise_mutants() {
    const auto multiplies = [](const Declaration& d) { return d.granularity != "none" && !d.divides; };
    const auto divides = [](const Declaration& d) { return d.granularity != "none" && d.divides; };
    static const std::vector<MutantRow> rows{
        {"scale from the neighbouring group", "scale", {.shifted = "group_scale"}, multiplies},
        {"scale missing", "scale", {.missing = "group_scale"}, multiplies},
        {"scale from the neighbouring group", "scale", {.shifted = "group_divisor"}, divides},
        {"scale missing", "scale", {.missing = "group_divisor"}, divides}};
    return rows;
}

}  // namespace macheps::check::listing
