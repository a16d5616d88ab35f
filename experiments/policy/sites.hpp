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
//                 P^T dO.
//   elementwise   forward.out  grad.in  grad.out  (embed, norms, softmax, act, residuals)
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

enum class SiteKind { linear, product, elementwise, loss };

struct Site {
    std::string name;  ///< `block.3.mlp.up`
    SiteKind kind = SiteKind::elementwise;
    std::int64_t in = 0, out = 0;  ///< a linear's features
    bool scaled = false;           ///< attn.scores: has the `scaled` slots
};

struct Parameter {
    std::string name;  ///< `block.3.mlp.up.weight`
    std::int64_t count = 0;
};

/// What a policy is resolved against.
struct SiteList {
    std::vector<Site> sites;
    std::vector<Parameter> parameters;
};

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
