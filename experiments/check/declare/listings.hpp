// SPDX-License-Identifier: Apache-2.0
// Functions that build the list of nodes and the table of wrong kernels of each operation. The table of operations in
// operations.cpp uses them.
#pragma once
#include "experiments/check/declare/operations.hpp"

namespace macheps::check::listing {

Value gemm(Listing& l);

// reductions.cpp
Value sum(Listing& l);
Value mean(Listing& l);
Value greatest(Listing& l);
Value least(Listing& l);
Value amax(Listing& l);
Value norm(Listing& l);
Value log_sum_exp(Listing& l);
Value softmax(Listing& l);
Value log_softmax(Listing& l);
Value rms_norm(Listing& l);
Value layer_norm(Listing& l);
Value cross_entropy(Listing& l);
Value reduced_loss(Listing& l);
std::span<const MutantRow> sum_mutants();
std::span<const MutantRow> norm_mutants();
std::span<const MutantRow> extreme_mutants();
std::span<const MutantRow> amax_mutants();
std::span<const MutantRow> norm2_mutants();
std::span<const MutantRow> loss_mutants();

// activations.cpp

/// A named activation. It is used by the operation of that name, by gates and by the epilogues of products.
struct Activation {
    std::string_view name;
    Value (*list)(Nodes& n, Value x, std::string_view form);
    std::span<const Form> forms{};
};
/// Returns all activations. A product's epilogue may use `none`, relu, gelu, gelu_tanh and silu.
std::span<const Activation> activations();
/// Returns null for an unknown name.
const Activation* find_activation(std::string_view name);
/// Returns the forms of all activations that a product's epilogue may use.
std::span<const Form> epilogue_forms();
/// Returns the forms that this declaration may choose: the forms of its operation or, for a product, of its activation.
std::span<const Form> forms_of(const Declaration& declaration);
/// Returns the forms of an activation; empty if there is only one.
std::span<const Form> forms_of(std::string_view activation);
Value activated(Nodes& n, std::string_view name, Value x, std::string_view form);

// Return the forms of softmax, of its logarithm, and of the losses that use it.
std::span<const Form> softmax_forms();
std::span<const Form> log_softmax_forms();
std::span<const Form> loss_forms();
Value relu(Listing& l);
Value gelu(Listing& l);
Value gelu_tanh(Listing& l);
Value silu(Listing& l);
Value sigmoid(Listing& l);
Value tanh(Listing& l);
Value exp(Listing& l);
Value swiglu(Listing& l);
Value geglu(Listing& l);
Value geglu_tanh(Listing& l);
Value rotary(Listing& l);
Value embedding(Listing& l);
Value cast(Listing& l);
Value quantise(Listing& l);
std::span<const MutantRow> gelu_mutants();
std::span<const MutantRow> gelu_tanh_mutants();
std::span<const MutantRow> gated_mutants();
std::span<const MutantRow> erf_gated_mutants();
std::span<const MutantRow> tanh_gated_mutants();
std::span<const MutantRow> rotary_mutants();
std::span<const MutantRow> embedding_mutants();
std::span<const MutantRow> quantise_mutants();

/// Returns true if the declaration gives no format for intermediate results (`inner`).
inline bool has_no_inner(const Declaration& d) { return !d.inner; }

}  // namespace macheps::check::listing
