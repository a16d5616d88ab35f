// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/config.hpp"

#include "core/error.hpp"
#include "core/nearest_name.hpp"

#include <fmt/format.h>

namespace macheps {

const std::vector<ModelSize>& model_sizes() {
    static const std::vector<ModelSize> sizes{
        {"tiny", {.layers = 2, .width = 64, .heads = 4, .context = 32, .vocabulary = 64}, 16},
        {"small", {.layers = 4, .width = 128, .heads = 4, .context = 128, .vocabulary = 256}, 8},
        {"base", {.layers = 6, .width = 384, .heads = 6, .context = 256, .vocabulary = 256}, 4}};
    return sizes;
}

const ModelSize& named_size(std::string_view name) {
    std::vector<std::string_view> names;
    for (const ModelSize& size : model_sizes()) {
        if (size.name == name) return size;
        names.push_back(size.name);
    }
    throw Error({.what = fmt::format("unknown size '{}'", name),
                 .where = "--size",
                 .fix = fmt::format("did you mean '{}'? sizes are tiny, small, base", nearest_name(name, names)),
                 .exit = Exit::usage});
}

void check(const ModelConfig& c) {
    const auto at_least = [](const char* option, std::int64_t value, std::int64_t least) {
        if (value < least) {
            throw Error({.what = fmt::format("{} is {}", option, value),
                         .where = option,
                         .fix = fmt::format("give at least {}", least),
                         .exit = Exit::usage});
        }
    };
    at_least("--layers", c.layers, 1);
    at_least("--width", c.width, 1);
    at_least("--heads", c.heads, 1);
    at_least("--context", c.context, 1);
    at_least("--vocabulary", c.vocabulary, 2);
    if (c.width % c.heads != 0) {
        throw Error({.what = fmt::format("{} heads do not divide a width of {}", c.heads, c.width),
                     .where = "--heads",
                     .fix = "choose a width that is a multiple of the number of heads",
                     .exit = Exit::usage});
    }
}

SiteList model_sites(const ModelConfig& c) {
    SiteList list;
    const auto elementwise = [&](const std::string& name) {
        list.sites.push_back({.name = name, .kind = SiteKind::elementwise});
    };
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
        list.sites.push_back({.name = name, .kind = SiteKind::linear, .in = in, .out = out});
        list.parameters.push_back({name + ".weight", in * out});
        if (bias) list.parameters.push_back({name + ".bias", out});
    };
    const auto norm = [&](const std::string& name) {
        elementwise(name);
        list.parameters.push_back({name + ".weight", c.width});
        list.parameters.push_back({name + ".bias", c.width});
    };
    elementwise("embed");
    list.parameters.push_back({"embed.token.weight", c.vocabulary * c.width});
    list.parameters.push_back({"embed.position.weight", c.context * c.width});
    for (std::int64_t i = 0; i < c.layers; ++i) {
        const std::string block = fmt::format("block.{}.", i);
        norm(block + "norm1");
        linear(block + "attn.qkv", c.width, 3 * c.width, true);
        list.sites.push_back({.name = block + "attn.scores", .kind = SiteKind::product, .scaled = true});
        elementwise(block + "attn.softmax");
        list.sites.push_back({.name = block + "attn.mix", .kind = SiteKind::product});
        linear(block + "attn.proj", c.width, c.width, true);
        elementwise(block + "residual1");
        norm(block + "norm2");
        linear(block + "mlp.up", c.width, 4 * c.width, true);
        elementwise(block + "mlp.act");
        linear(block + "mlp.down", 4 * c.width, c.width, true);
        elementwise(block + "residual2");
    }
    norm("final_norm");
    list.sites.push_back({.name = "lm_head", .kind = SiteKind::linear, .in = c.width, .out = c.vocabulary});
    if (!c.tied) list.parameters.push_back({"lm_head.weight", c.vocabulary * c.width});
    list.sites.push_back({.name = "loss", .kind = SiteKind::loss});
    return list;
}

std::int64_t parameter_count(const ModelConfig& config) {
    std::int64_t count = 0;
    for (const Parameter& parameter : model_sites(config).parameters) count += parameter.count;
    return count;
}

}  // namespace macheps
