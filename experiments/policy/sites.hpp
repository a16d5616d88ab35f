// SPDX-License-Identifier: Apache-2.0
// Sites: a name for every place where a number can be rounded. A model lists its sites, and the rules of a policy refer
// to them.
//
// A site has slots, written after a colon: `block.3.mlp.up:forward.a`. The kind of a site determines its slots. Each
// kind is a row below, with a sentence for every slot, which `macheps policy words` prints. To add a slot, add a row.
// The parser, `policy explain` and the presets' tests need no change.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

struct Site;

/// A place in a site or parameter where a number can be rounded.
struct SlotRow {
    std::string_view name;  ///< group, dot, name in the group: `forward.a`; for a slot of a parameter, only a name
    std::string_view summary;
    bool Site::*only = nullptr;  ///< the slot exists only at sites where this is true; null: at all sites of the kind
};

/// Kind of computation at a site, which determines its slots and matmuls.
struct SiteKind {
    std::string_view name, summary;
    std::span<const SlotRow> slots;
    std::span<const std::string_view> matmuls{};  ///< groups of slots that are matmuls; each has the slots a, b and out
    /// Whether operand b is a weight with `in` x `out` features. At such a site, `multiple_of` applies, a bias may be
    /// added, and operands may have scales for rows, columns or blocks.
    bool has_weight = false;

    /// Compares the names.
    constexpr bool operator==(const SiteKind& other) const { return name == other.name; }

    static const SiteKind linear, elementwise, product, loss, rms_norm, rope, gated;
};

struct Site {
    std::string name;  ///< `block.3.mlp.up`
    SiteKind kind = SiteKind::elementwise;
    std::int64_t in = 0, out = 0;  ///< features of a linear
    bool scaled = false;           ///< has the slots forward.scaled and grad.scaled (attn.scores)
    bool grouped = false;          ///< several heads of operand a share one head of b, so the slot grad_b.sum exists
    /// Number of elements of forward.out, for each sample of a batch, that autograd keeps for the backward pass.
    std::int64_t saved = 0;
    /// A second slot whose values autograd keeps, such as forward.normed. It has as many elements as forward.out. Empty
    /// if autograd keeps only forward.out.
    std::string_view saved_beside{};
};

struct Parameter {
    std::string name;  ///< `block.3.mlp.up.weight`
    std::int64_t count = 0;
};

/// The sites and parameters of a model, against which a policy is resolved.
struct SiteList {
    std::string model;  ///< kind of the model (`gpt2`, `llama`); a rule can be limited to one kind
    std::vector<Site> sites;
    std::vector<Parameter> parameters;
};

// X is a site's input, Y its output, dY the gradient of Y. A linear has X [M,K], a weight W [N,K] and Y [M,N] = X W^T.
// At `grad.in`, an incoming gradient is rounded to the format of the forward output to which it belongs.

namespace site_rows {

inline constexpr SlotRow linear_slots[] = {
    {"forward.in", "X on entry, before it is cast to an operand: autocast rounds here before an fp8 cast"},
    {"forward.a", "operand a of the forward matmul: X"},
    {"forward.b", "operand b of the forward matmul: W^T"},
    {"forward.bias", "the bias, before it is added"},
    {"forward.out", "Y"},
    {"grad.in", "dY on entry"},
    {"input_grad.a", "operand a of the input's gradient: dY"},
    {"input_grad.b", "operand b of the input's gradient: W"},
    {"input_grad.out", "the gradient of X"},
    {"weight_grad.a", "operand a of the weight's gradient: dY^T"},
    {"weight_grad.b", "operand b of the weight's gradient: X"},
    {"weight_grad.out", "the gradient of W, before it is added to that of earlier micro-batches"},
    {"bias_grad.out", "the gradient of the bias: column sums of dY"},
};
inline constexpr std::string_view linear_matmuls[] = {"forward", "input_grad", "weight_grad"};

inline constexpr SlotRow elementwise_slots[] = {
    {"forward.out", "the result"},
    {"grad.in", "the gradient of the result, on entry"},
    {"grad.out", "the gradient of the input"},
};

inline constexpr SlotRow product_slots[] = {
    {"forward.a", "operand a: Q of attn.scores, the probabilities P of attn.mix"},
    {"forward.b", "operand b: K^T of attn.scores, V of attn.mix"},
    {"forward.out", "the product: scores S or mixed values O"},
    {"forward.scaled", "the scores after they are multiplied by 1/sqrt(D)", &Site::scaled},
    {"grad.in", "the gradient of the site's output, on entry"},
    {"grad.scaled", "the gradient of the scores, multiplied by 1/sqrt(D)", &Site::scaled},
    {"grad_a.a", "left operand of the matmul that computes the gradient of a: dS for attn.scores, dO for attn.mix"},
    {"grad_a.b", "right operand of the matmul that computes the gradient of a: K for attn.scores, V^T for attn.mix"},
    {"grad_a.out", "the gradient of a"},
    {"grad_b.a", "left operand of the matmul that computes the gradient of b: dS^T for attn.scores, P^T for attn.mix"},
    {"grad_b.b", "right operand of the matmul that computes the gradient of b: Q for attn.scores, dO for attn.mix"},
    {"grad_b.out", "the gradient of b; if several query heads share a key head, the contribution of one query head"},
    {"grad_b.sum", "the gradient of b, summed over the query heads that share a key head", &Site::grouped},
};
inline constexpr std::string_view product_matmuls[] = {"forward", "grad_a", "grad_b"};

inline constexpr SlotRow loss_slots[] = {
    {"forward.out", "the log-probabilities"},
    {"forward.mean", "the mean loss"},
    {"grad.out", "the gradient of the logits"},
};

inline constexpr SlotRow rms_norm_slots[] = {
    {"forward.normed", "x / rms(x), before the weight"},
    {"forward.out", "the normed x times the weight"},
    {"grad.in", "dY on entry"},
    {"weight_grad.terms", "dY times the normed x, before its columns are summed"},
    {"weight_grad.out", "the gradient of the weight: column sums of dY times the normed x"},
    {"grad.normed", "dY times the weight"},
    {"grad.out", "the gradient of x"},
};

inline constexpr SlotRow rope_slots[] = {
    {"forward.inv_freq", "the frequencies; tables are made once, not at every step"},
    {"forward.cos", "the table of cosines"},
    {"forward.sin", "the table of sines"},
    {"forward.direct", "x cos"},
    {"forward.rotated", "rotate_half(x) sin"},
    {"forward.out", "the sum of forward.direct and forward.rotated"},
    {"grad.in", "dY on entry"},
    {"grad.direct", "dY cos"},
    {"grad.rotated", "dY sin, rotated back"},
    {"grad.out", "the gradient of x: the sum of grad.direct and grad.rotated"},
};

inline constexpr SlotRow gated_slots[] = {
    {"forward.activated", "silu(gate)"},
    {"forward.out", "silu(gate) times up"},
    {"grad.in", "dY on entry"},
    {"grad.activated", "dY times up"},
    {"grad.up", "the gradient of up: dY times silu(gate)"},
    {"grad.out", "the gradient of the gate"},
};

}  // namespace site_rows

inline constexpr SiteKind SiteKind::linear{.name = "linear",
                                           .summary = "a layer with a weight: Y = X W^T, then the bias if it has one",
                                           .slots = site_rows::linear_slots,
                                           .matmuls = site_rows::linear_matmuls,
                                           .has_weight = true};
inline constexpr SiteKind SiteKind::elementwise{.name = "elementwise",
                                                .summary = "embed, layer norms, softmax, gelu and residuals",
                                                .slots = site_rows::elementwise_slots};
inline constexpr SiteKind SiteKind::product{
    .name = "product",
    .summary = "attn.scores and attn.mix: matmuls of two activations, head by head",
    .slots = site_rows::product_slots,
    .matmuls = site_rows::product_matmuls};
inline constexpr SiteKind SiteKind::loss{
    .name = "loss", .summary = "the cross entropy of the logits", .slots = site_rows::loss_slots};
inline constexpr SiteKind SiteKind::rms_norm{
    .name = "rms_norm", .summary = "root-mean-square norm with a weight", .slots = site_rows::rms_norm_slots};
inline constexpr SiteKind SiteKind::rope{.name = "rope",
                                         .summary = "attn.rope: rotary positions, of queries and keys together",
                                         .slots = site_rows::rope_slots};
inline constexpr SiteKind SiteKind::gated{
    .name = "gated", .summary = "mlp.act with a gate: silu(gate) times up", .slots = site_rows::gated_slots};

/// All kinds. Errors list slots in this order.
inline constexpr const SiteKind* all_site_kinds[] = {&SiteKind::linear, &SiteKind::elementwise, &SiteKind::product,
                                                     &SiteKind::loss,   &SiteKind::rms_norm,    &SiteKind::rope,
                                                     &SiteKind::gated};

/// The slots of a parameter, written as `block.3.mlp.up.weight:value`.
inline constexpr SlotRow parameter_slots[] = {
    {"value", "the weight that forward and backward read"},
    {"master",
     "a copy of the weight; the optimiser updates this copy, not the weight itself. It exists only if a rule names it"},
    {"grad", "the gradient, whenever it is accumulated, unscaled or clipped"},
    {"accum",
     "the sum of the gradients of the micro-batches. The gradient of a micro-batch has the format of `grad`. The sum "
     "is "
     "rounded to the format of `accum` after unscaling and after clipping. `accum` exists only if a rule names it; "
     "otherwise `grad` is the sum"},
    {"moment1", "the first moment of AdamW; the momentum of SGD stays fp32"},
    {"moment2", "the second moment of AdamW"},
    {"update", "the value that a step adds to the weight; not used if [optimizer] arithmetic is narrower than fp32"},
};

/// Returns the kinds of model: gpt2, llama.
std::span<const std::string_view> model_names();
/// Returns the slots of this site, in the order of its kind's rows.
std::vector<std::string_view> slots_of(const Site& site);
/// Returns the matmuls of a linear or product, and none for other kinds.
std::vector<std::string_view> matmuls_of(const Site& site);

/// Returns the groups of all slots of sites, each once. A group is the part of a slot's name before the dot: `forward`,
/// `grad`, ... A rule can have a table for each group.
std::vector<std::string_view> slot_groups();
/// Returns the names (after the dot) of all slots that some kind of site has in this group, each once.
std::vector<std::string_view> slots_in_group(std::string_view group);
/// Returns whether some kind of site has a matmul with this name.
bool is_matmul_group(std::string_view group);

/// Returns whether the name matches a glob: `*` matches any characters (also dots), `?` one character, and `{a,b}`
/// alternatives, which may nest.
bool glob_match(std::string_view pattern, std::string_view name);
/// Returns whether every brace has a matching brace. glob_match treats a brace without one as an ordinary character.
bool braces_match(std::string_view pattern);
/// Returns why a pattern is too long or too deeply nested to be used (`the pattern has 5000 bytes, ...`), or an empty
/// text if it can be used.
std::string problem_of_pattern(std::string_view pattern);

}  // namespace macheps::policy
