// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/config.hpp"

#include "core/field_error.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include <limits>

namespace macheps::training {

std::string_view to_string(ModelKind kind) { return policy::model_names()[static_cast<std::size_t>(kind)]; }

ModelKind parse_model_kind(std::string_view name) {
    const std::vector<std::string_view> names(policy::model_names().begin(), policy::model_names().end());
    for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
        if (name == to_string(kind)) return kind;
    }
    const std::string near = nearest_name(name, names);
    throw FieldError("kind", fmt::format("unknown model '{}'", name),
                     (near.empty() ? "" : fmt::format("did you mean '{}'? ", near)) + "use gpt2 or llama");
}

std::string_view to_string(const elementwise::Unary& activation) {
    for (const Activation& row : activations) {
        if (row.f == activation) return row.name;
    }
    return activation.name;
}

elementwise::Unary parse_activation(std::string_view name) {
    std::vector<std::string_view> names;
    for (const Activation& row : activations) {
        if (row.name == name) return row.f;
        names.push_back(row.name);
    }
    throw FieldError("gelu", fmt::format("unknown activation '{}'", name),
                     fmt::format("use one of {}", fmt::join(names, ", ")));
}

std::int64_t ModelConfig::hidden_width() const {
    if (hidden != 0) return hidden;
    return kind == ModelKind::llama ? (8 * width + 95) / 96 * 32 : 4 * width;
}

const std::vector<ModelSize>& model_sizes() {
    static const std::vector<ModelSize> sizes{
        {"tiny", {.layers = 2, .width = 64, .heads = 4, .context = 32, .vocabulary = 64}, 16},
        {"small", {.layers = 4, .width = 128, .heads = 4, .context = 128, .vocabulary = 256}, 8},
        {"base", {.layers = 6, .width = 384, .heads = 6, .context = 256, .vocabulary = 256}, 4}};
    return sizes;
}

ModelSize named_size(std::string_view name, ModelKind kind) {
    std::vector<std::string_view> names;
    for (ModelSize size : model_sizes()) {
        names.push_back(size.name);
        if (size.name != name) continue;
        size.model.kind = kind;
        size.model.tied = kind == ModelKind::gpt2;
        return size;
    }
    const std::string near = nearest_name(name, names);
    throw FieldError("size", fmt::format("unknown size '{}'", name),
                     fmt::format("{}use one of {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                 fmt::join(names, ", ")));
}

void validate(const ModelConfig& c) {
    check_range("layers", c.layers, 1, max_size);
    check_range("width", c.width, 1, max_size);
    check_range("heads", c.heads, 1, max_size);
    check_range("context", c.context, 1, max_size);
    check_range("vocabulary", c.vocabulary, 2, max_size);
    check_range("kv_heads", c.kv_heads, 0, max_size);
    check_range("hidden", c.hidden, 0, max_size);
    const auto refuse = [](const char* field, const std::string& what, const char* fix) {
        throw FieldError(field, what, fix);
    };
    if (c.width % c.heads != 0) {
        refuse("heads", fmt::format("{} heads do not divide a width of {}", c.heads, c.width),
               "choose a width that is a multiple of the number of heads");
    }
    if (c.kind != ModelKind::llama) {
        if (c.key_heads() != c.heads) {
            refuse("kv_heads", "a gpt2 model has one key head for every query head", "remove it, or use `kind` llama");
        }
        return;
    }
    if (c.heads % c.key_heads() != 0) {
        refuse("kv_heads", fmt::format("{} key heads do not divide {} heads", c.key_heads(), c.heads),
               "choose a divisor of the number of heads");
    }
    if (c.head_width() % 2 != 0) {
        refuse("heads",
               fmt::format("rotary positions rotate pairs of channels, but a head has {} channels", c.head_width()),
               "choose `width` and `heads` so that their quotient is even");
    }
    if (!(c.rope_theta > 1) || !std::isfinite(c.rope_theta)) {
        refuse("rope_theta", fmt::format("{} is not a valid base of rotary positions", c.rope_theta),
               "use a number above 1");
    }
}

policy::SiteList model_sites(const ModelConfig& c) {
    const bool llama = c.kind == ModelKind::llama;
    // Numbers of elements per sample: `wide` for a tensor between blocks, `hidden` for a tensor inside a feed-forward
    // layer.
    const std::int64_t wide = c.context * c.width, hidden = c.context * c.hidden_width();
    const std::int64_t scores = c.heads * c.context * c.context, logits = c.context * c.vocabulary;
    policy::SiteList list;
    list.model = to_string(c.kind);
    const auto site = [&](const std::string& name, policy::SiteKind kind, std::int64_t saved) -> policy::Site& {
        list.sites.push_back({.name = name, .kind = kind, .saved = saved});
        return list.sites.back();
    };
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out, std::int64_t saved) {
        policy::Site& added = site(name, policy::SiteKind::linear, saved);
        added.in = in, added.out = out;
        list.parameters.push_back({name + ".weight", in * out});
        if (!llama) list.parameters.push_back({name + ".bias", out});
    };
    const auto norm = [&](const std::string& name) {
        policy::Site& added = site(name, llama ? policy::SiteKind::rms_norm : policy::SiteKind::elementwise, wide);
        if (llama) added.saved_beside = "forward.normed";
        list.parameters.push_back({name + ".weight", c.width});
        if (!llama) list.parameters.push_back({name + ".bias", c.width});
    };
    const auto product = [&](const std::string& name, std::int64_t saved) -> policy::Site& {
        policy::Site& added = site(name, policy::SiteKind::product, saved);
        added.grouped = c.key_heads() != c.heads;
        return added;
    };
    site("embed", policy::SiteKind::elementwise, wide);
    list.parameters.push_back({"embed.token.weight", c.vocabulary * c.width});
    if (!llama) list.parameters.push_back({"embed.position.weight", c.context * c.width});
    for (std::int64_t i = 0; i < c.layers; ++i) {
        const std::string block = fmt::format("block.{}.", i);
        norm(block + "norm1");
        linear(block + "attn.qkv", c.width, c.qkv_width(), c.context * c.qkv_width());
        // Queries and keys are rotated by their positions. Autograd keeps the rotated queries and keys.
        const std::int64_t turned = c.context * (c.heads + c.key_heads()) * c.head_width();
        if (llama) site(block + "attn.rope", policy::SiteKind::rope, turned);
        product(block + "attn.scores", 0).scaled = true;  // not saved: softmax's backward reads softmax's output
        site(block + "attn.softmax", policy::SiteKind::elementwise, scores);
        product(block + "attn.mix", wide);
        linear(block + "attn.proj", c.width, c.width, 0);  // not saved: the gradient of a sum does not need its terms
        site(block + "residual1", policy::SiteKind::elementwise, wide);
        norm(block + "norm2");
        if (llama) linear(block + "mlp.gate", c.width, c.hidden_width(), hidden);
        linear(block + "mlp.up", c.width, c.hidden_width(), hidden);
        policy::Site& act =
            site(block + "mlp.act", llama ? policy::SiteKind::gated : policy::SiteKind::elementwise, hidden);
        if (llama) act.saved_beside = "forward.activated";
        linear(block + "mlp.down", c.hidden_width(), c.width, 0);
        site(block + "residual2", policy::SiteKind::elementwise, wide);
    }
    norm("final_norm");
    policy::Site& lm_head = site("lm_head", policy::SiteKind::linear, logits);
    lm_head.in = c.width, lm_head.out = c.vocabulary;
    if (!c.tied) list.parameters.push_back({"lm_head.weight", c.vocabulary * c.width});
    site("loss", policy::SiteKind::loss, logits);
    return list;
}

std::int64_t parameter_count(const ModelConfig& config) {
    const auto of_layers = [&](std::int64_t layers) {
        ModelConfig some = config;
        some.layers = layers;
        std::int64_t count = 0;
        for (const policy::Parameter& parameter : model_sites(some).parameters) count += parameter.count;
        return count;
    };
    if (config.layers <= 2) return of_layers(config.layers);
    // All blocks have the same number of parameters, so the number for one block is multiplied. A model may have a
    // million blocks, and listing all of them would take too long.
    const std::int64_t one = of_layers(1), block = of_layers(2) - one;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    return block > (most - one) / (config.layers - 1) ? most : one + (config.layers - 1) * block;
}

}  // namespace macheps::training
