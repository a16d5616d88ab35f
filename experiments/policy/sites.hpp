// SPDX-License-Identifier: Apache-2.0
// Sites: a name for every place where a number can be rounded. A model lists its own; a policy speaks about them.
//
// A site has slots, written after a colon: `block.3.mlp.up:forward.a`.
//   linear        forward.{in,a,b,bias,out}  grad.in  input_grad.{a,b,out}  weight_grad.{a,b,out}  bias_grad.out
//                 forward.in rounds X on entry (autocast before an fp8 cast), then a = X [M,K], b = W^T. input_grad: a
//                 = dY [M,N], b = W [N,K]. weight_grad: a = dY^T, b = X.
//   product       (attn.scores, attn.mix) forward.{a,b,out}  grad.in  grad_a.{a,b,out}  grad_b.{a,b,out}; attn.scores
//                 has forward.scaled and grad.scaled too, the multiplication by 1/sqrt(D) and its gradient.
//                 scores: a = Q, b = K^T; grad_a = dS K, grad_b = dS^T Q. mix: a = P, b = V; grad_a = dO V^T, grad_b =
//                 P^T dO. Where several query heads share a key head both have grad_b.sum too: grad_b.out is the
//                 gradient of one query head's share, grad_b.sum that of their sum.
//   elementwise   forward.out  grad.in  grad.out  (embed, layer norms, softmax, gelu, residuals)
//   rms_norm      forward.normed (x / rms(x), before the weight)  forward.out  grad.in  weight_grad.terms (dY times the
//                 normed x) weight_grad.out (their column sums)  grad.normed (dY times the weight)  grad.out
//   rope          (attn.rope: queries and keys together) forward.{inv_freq,cos,sin} (the tables, made once)
//                 forward.direct (x cos)  forward.rotated (rotate_half(x) sin)  forward.out (their sum)  grad.in
//                 grad.{direct,rotated,out}
//   gated         (mlp.act with a gate) forward.activated (silu(gate))  forward.out (times up)  grad.in
//                 grad.activated (dY times up)  grad.up (dY times silu(gate))  grad.out (of the gate)
//   loss          forward.out (log-probabilities)  forward.mean  grad.out (gradient of the logits)
// `grad.in` is the rounding of an incoming gradient to the format of the forward output it belongs to.
// Parameters have the slots value, master, grad, moment1, moment2, update: `block.3.mlp.up.weight:value`.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

enum class SiteKind { linear, product, elementwise, loss, rms_norm, rope, gated };

struct Site {
    std::string name;  ///< `block.3.mlp.up`
    SiteKind kind = SiteKind::elementwise;
    std::int64_t in = 0, out = 0;  ///< a linear's features
    bool scaled = false;           ///< attn.scores: has the `scaled` slots
    bool grouped = false;          ///< a product whose b serves several heads of a: has the slot grad_b.sum
    /// Elements of forward.out that autograd keeps for the backward pass, for one sample of a batch.
    std::int64_t saved = 0;
    /// A slot whose values autograd keeps beside forward.out, of as many elements; empty when there is none.
    std::string_view saved_beside{};
};

struct Parameter {
    std::string name;  ///< `block.3.mlp.up.weight`
    std::int64_t count = 0;
};

/// What a policy is resolved against.
struct SiteList {
    std::string model;  ///< its kind, which rules may ask for: `gpt2`, `llama`
    std::vector<Site> sites;
    std::vector<Parameter> parameters;
};

/// The kinds of model there are: gpt2, llama.
std::span<const std::string_view> model_names();
/// The slots of a kind of site, in the order of the list above.
std::vector<std::string_view> slots_of(const Site& site);
std::span<const std::string_view> parameter_slots();
/// The matmuls of a linear or a product; none for other kinds.
std::vector<std::string_view> matmuls_of(const Site& site);

/// Glob: `*` any characters (dots too), `?` one, `{a,b}` alternatives, which may nest.
bool glob_match(std::string_view pattern, std::string_view name);
/// False when a brace opens and does not close, or the reverse; glob_match takes such a brace literally.
bool braces_match(std::string_view pattern);

}  // namespace macheps
