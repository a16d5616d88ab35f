// SPDX-License-Identifier: Apache-2.0
// Operations on elements: activations, gates, rotations, gathers, casts.
#include "experiments/check/listings.hpp"

#include <vector>

namespace macheps::check::listing {

namespace {

/// x (1 + erf(x / sqrt 2)) / 2.
Value erf_gelu(Nodes& n, Value x) {
    // x sqrt(1/2), or x / sqrt 2 by way of a reciprocal: the constant's rounding, and two more.
    const Value root_half = n.irrational(0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55);
    const Value sum = n.one_and(n.error(n.multiply(x, root_half, 2)));
    return n.multiply(n.multiply(x, n.constant(0.5), 0), sum, 2);
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
Value tanh_gelu(Nodes& n, Value x) {
    const Value root = n.irrational(0x1.9884533d43651p-1, -0x1.cbc0d30ebfd15p-55);
    const Value cube = n.multiply(n.multiply(x, x), x),
                term = n.multiply(cube, n.irrational(0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59));  // 0.044715
    const Value argument = n.multiply(n.add(x, term), root, 2);  // also as x (1 + 0.044715 x^2)
    return n.multiply(n.multiply(x, n.constant(0.5), 0), n.one_and(n.tangent(argument)), 2);
}

Value silu_of(Nodes& n, Value x) { return n.multiply(x, n.sigmoid(x)); }

/// activation(gate) up, where the activation may be rounded first.
Value gated(Listing& l, Value (*activation)(Nodes&, Value)) {
    const Value gate = *l.input(l.defect.exchanged ? "up" : "gate"), up = *l.input(l.defect.exchanged ? "gate" : "up");
    return l.nodes.multiply(l.inner(activation(l.nodes, gate)), up);
}

bool has_no_inner(const Declaration& d) { return !d.inner; }

const MutantRow exchanged{"gate and up exchanged", "operation", {.exchanged = true}};
const MutantRow inner_gate{"activation rounded to bf16 before it meets up", "precision", {.inner = bf16}, has_no_inner};
const MutantRow tanh_for_erf{"tanh form for erf", "operation", {.has_other_form = true}};
const MutantRow erf_for_tanh{"erf for the tanh form", "operation", {.has_other_form = true}};

}  // namespace

Value relu(Listing& l) {
    const Value x = *l.input("x");
    return l.nodes.larger(x, l.nodes.constant(0));
}
Value gelu(Listing& l) {
    return l.defect.has_other_form ? tanh_gelu(l.nodes, *l.input("x")) : erf_gelu(l.nodes, *l.input("x"));
}
Value gelu_tanh(Listing& l) {
    return l.defect.has_other_form ? erf_gelu(l.nodes, *l.input("x")) : tanh_gelu(l.nodes, *l.input("x"));
}
Value silu(Listing& l) { return silu_of(l.nodes, *l.input("x")); }
Value sigmoid(Listing& l) { return l.nodes.sigmoid(*l.input("x")); }
Value tanh(Listing& l) { return l.nodes.tangent(*l.input("x")); }
Value exp(Listing& l) { return l.nodes.exponential(*l.input("x")); }

Value activated(Nodes& n, std::string_view name, Value x) {
    if (name == "relu") return n.larger(x, n.constant(0));
    if (name == "gelu") return erf_gelu(n, x);
    if (name == "gelu_tanh") return tanh_gelu(n, x);
    return name == "silu" ? silu_of(n, x) : x;
}

Value swiglu(Listing& l) { return gated(l, silu_of); }
Value geglu(Listing& l) { return gated(l, l.defect.has_other_form ? tanh_gelu : erf_gelu); }
Value geglu_tanh(Listing& l) { return gated(l, l.defect.has_other_form ? erf_gelu : tanh_gelu); }

/// x cos + turned x sin; the wrong layout turns the other neighbours, by the other places of the tables.
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
/// What is cast: x times the encode scale of its group, rounded to fp32.
Value quantise(Listing& l) {
    const Value x = *l.input("x");
    const auto encode = l.input("group_scale");
    return encode ? l.nodes.convert(l.nodes.multiply(x, *encode, 0), fp32) : x;
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
    static const std::vector<MutantRow> rows{{"scale from the neighbouring group", "scale", {.shifted = "group_scale"}},
                                             {"scale missing", "scale", {.missing = "group_scale"}}};
    return rows;
}

}  // namespace macheps::check::listing
