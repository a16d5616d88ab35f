// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/framework_linears.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

namespace macheps::policy {

namespace {

/// A linear module of a framework, and the corresponding linear of macheps. The module is, depending on `part`, the
/// whole linear, a part of it, or the two linears gate and up together.
struct Module {
    std::string_view name, site;
    enum class Part : std::uint8_t { whole, query, key_or_value, gate_and_up } part = Part::whole;
};

struct ModelModules {
    ModuleNames names;
    std::string_view model;   ///< kind of model; empty if the names apply to all kinds
    std::string_view blocks;  ///< what precedes the number of a block in a name
    std::initializer_list<Module> modules;
    std::string_view head;
};

using Part = Module::Part;

const ModelModules tables[] = {
    {ModuleNames::transformers,
     "llama",
     "model.layers.",
     {{"self_attn.q_proj", "attn.qkv", Part::query},
      {"self_attn.k_proj", "attn.qkv", Part::key_or_value},
      {"self_attn.v_proj", "attn.qkv", Part::key_or_value},
      {"self_attn.o_proj", "attn.proj"},
      {"mlp.gate_proj", "mlp.gate"},
      {"mlp.up_proj", "mlp.up"},
      {"mlp.down_proj", "mlp.down"}},
     "lm_head"},
    {ModuleNames::torchtitan,
     "llama",
     "layers.",
     {{"attention.wq", "attn.qkv", Part::query},
      {"attention.wk", "attn.qkv", Part::key_or_value},
      {"attention.wv", "attn.qkv", Part::key_or_value},
      {"attention.wo", "attn.proj"},
      {"feed_forward.w1", "mlp.gate"},
      {"feed_forward.w2", "mlp.down"},
      {"feed_forward.w3", "mlp.up"}},
     "output"},
    {ModuleNames::megatron,
     "",
     "decoder.layers.",
     {{"self_attention.linear_proj", "attn.proj"},
      {"self_attention.linear_qkv", "attn.qkv"},
      {"mlp.linear_fc1", "mlp.gate", Part::gate_and_up},
      {"mlp.linear_fc1", "mlp.up", Part::gate_and_up},
      {"mlp.linear_fc2", "mlp.down"}},
     "output_layer"},
    {ModuleNames::transformers,
     "",
     "transformer.h.",
     {{"attn.c_attn", "attn.qkv"}, {"attn.c_proj", "attn.proj"}, {"mlp.c_fc", "mlp.up"}, {"mlp.c_proj", "mlp.down"}},
     "lm_head"},
};

const ModelModules& modules_of(ModuleNames names, std::string_view model) {
    for (const ModelModules& table : tables) {
        if (table.names == names && (table.model.empty() || table.model == model)) return table;
    }
    return tables[std::size(tables) - 1];
}

const Site* find_site(const SiteList& model, const std::string& name) {
    const auto site =
        std::find_if(model.sites.begin(), model.sites.end(), [&](const Site& each) { return each.name == name; });
    return site == model.sites.end() ? nullptr : &*site;
}

/// Returns the number of output features (rows of the weight) of a framework's module that corresponds to `site` in the
/// way that `part` describes.
std::int64_t rows_of(Part part, const SiteList& model, const std::string& block, const Site& site) {
    const auto side = [&](const char* name, std::int64_t Site::*which) {
        const Site* other = find_site(model, block + name);
        return other == nullptr ? 0 : other->*which;
    };
    switch (part) {
        case Part::query:
            return side("attn.proj", &Site::in);  // the input of attn.proj contains the outputs of all heads
        case Part::key_or_value:
            return (site.out - side("attn.proj", &Site::in)) / 2;
        case Part::gate_and_up:
            return side("mlp.gate", &Site::out) + side("mlp.up", &Site::out);
        case Part::whole:
            break;
    }
    return site.out;
}

std::int64_t block_count(const SiteList& model) {
    std::int64_t count = 0;
    while (find_site(model, fmt::format("block.{}.attn.qkv", count)) != nullptr) ++count;
    return count;
}

}  // namespace

std::string_view FrameworkLinear::parent() const {
    const std::string_view all = name;
    return all.substr(0, all.find_last_of('.') == all.npos ? 0 : all.find_last_of('.'));
}

std::vector<FrameworkLinear> framework_linears(ModuleNames names, const SiteList& model) {
    const ModelModules& table = modules_of(names, model.model);
    const std::int64_t blocks = block_count(model);
    std::vector<FrameworkLinear> linears;
    for (std::int64_t block = 0; block < blocks; ++block) {
        const std::string here = fmt::format("block.{}.", block);
        for (const Module& module : table.modules) {
            const Site* site = find_site(model, here + std::string(module.site));
            if (site == nullptr) continue;
            linears.push_back({.name = fmt::format("{}{}.{}", table.blocks, block, module.name),
                               .site = site->name,
                               .in = site->in,
                               .out = rows_of(module.part, model, here, *site),
                               .block = block,
                               .blocks = blocks});
        }
    }
    if (const Site* head = find_site(model, "lm_head")) {
        linears.push_back({.name = std::string(table.head),
                           .site = head->name,
                           .in = head->in,
                           .out = head->out,
                           .block = -1,
                           .blocks = blocks});
    }
    return linears;
}

}  // namespace macheps::policy
