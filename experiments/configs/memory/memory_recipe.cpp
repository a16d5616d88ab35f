// SPDX-License-Identifier: Apache-2.0
// Computes the bytes per parameter of a policy and of a framework's config.
#include "experiments/configs/memory/memory_recipe.hpp"

#include "core/error.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "experiments/policy/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace macheps::configs {

namespace {

constexpr bool is_low(double bytes) { return bytes > 0 && bytes <= 2; }

/// Returns which of three cases describes the bytes of activations: everything in a 16-bit format, only the operands of
/// matmuls in a 16-bit format, or everything in fp32.
const policy::ActivationForm* form_of(bool has_low_stream, bool has_low_operands) {
    if (has_low_stream) return &policy::low_activations;
    return has_low_operands ? &policy::autocast_activations : &policy::fp32_activations;
}

double bytes_of(const policy::CastRule& cast) { return cast.format.container_bits() / 8.0; }

/// Returns the bytes per number for the value of a field: the letter of a format ("B"), or the name of a storage format
/// ("nf4").
double bytes_of(std::string_view field, std::string_view word) {
    struct Row {
        std::string_view word;
        double bytes;
    };
    // By default, frameworks store a 4-bit base with double quantisation: the maximum of each block is quantised as
    // well. In torchao, 128 4-bit moments share an fp32 scale. In MXFP4, 32 numbers share a scale of one byte.
    static const Row rows[] = {{"", 0},
                               {"none", 0},
                               {"F", 4},
                               {"T", 4},
                               {"H", 2},
                               {"B", 2},
                               {"int8", 1},
                               {"fp8", 1},
                               {"nf4", policy::find_memory_recipe("qlora-double")->frozen},
                               {"fp4", policy::find_memory_recipe("qlora-double")->frozen},
                               {"mxfp4", 0.5 + 1.0 / 32},
                               {"int4", 0.5 + 4.0 / 128}};
    for (const Row& row : rows) {
        if (row.word == word) return row.bytes;
    }
    throw Error({.what = fmt::format("the number of bytes of '{}' is not known", word),
                 .where = std::string(field),
                 .fix = "run `macheps policy explain fp32 --params N` to list recipes whose bytes are known"});
}

/// Returns whether matmuls read a low-precision format. `compute` is the config field of this name. Every format except
/// fp32 and tf32 counts as low precision.
bool reads_low(std::string_view compute) { return !compute.empty() && compute != "F" && compute != "T"; }

/// Returns the name of the weight of a linear layer. A tied output head has no separate weight and reads the embedding.
std::string weight_of(const policy::SiteList& sites, const policy::Site& linear) {
    std::string name = linear.name + ".weight";
    const bool has_own = std::any_of(sites.parameters.begin(), sites.parameters.end(),
                                     [&](const policy::Parameter& one) { return one.name == name; });
    return has_own ? name : "embed.token.weight";
}

}  // namespace

policy::MemoryRecipe memory_recipe_of(const policy::SiteList& sites, const policy::ResolvedPolicy& policy) {
    policy::ParameterBytes sum;
    double count = 0;
    for (const policy::Parameter& parameter : sites.parameters) {
        const double elements = static_cast<double>(parameter.count);
        const auto bytes = [&](const char* slot) {
            return elements * bytes_of(policy.cast(parameter.name + ":" + slot));
        };
        sum.value += bytes("value");
        sum.grad += bytes("grad");
        sum.moments += bytes("moment1") + bytes("moment2");
        if (policy.has_master(parameter.name)) sum.master += bytes("master");
        count += elements;
    }
    bool has_low_operands = false, has_low_stream = false;
    for (const policy::Site& site : sites.sites) {
        if (site.name.ends_with("residual1"))
            has_low_stream = has_low_stream || is_low(bytes_of(policy.cast(site.name + ":forward.out")));
        if (!site.kind.has_weight || !is_low(bytes_of(policy.cast(site.name + ":forward.b")))) continue;
        has_low_operands = true;
        const double operand = bytes_of(policy.cast(site.name + ":forward.b"));
        const double value = bytes_of(policy.cast(weight_of(sites, site) + ":value"));
        if (operand < value) sum.cast += operand * static_cast<double>(site.in * site.out);
    }
    const policy::ParameterBytes mean{.value = sum.value / count,
                                      .grad = sum.grad / count,
                                      .master = sum.master / count,
                                      .moments = sum.moments / count,
                                      .cast = sum.cast / count};
    return {.trained = mean,
            .activations = form_of(has_low_stream, has_low_operands),
            .recomputes = policy.training.recompute.value_or(false)};
}

policy::MemoryRecipe memory_recipe_of(const ImportResult& imported) {
    const ResolvedConfig& config = imported.resolved;
    const auto bytes = [&](std::string_view field) { return bytes_of(field, config.word(field)); };
    const std::string_view state = config.word("opt_state");
    const double eight_bit = policy::find_memory_recipe("adam-8bit")->trained.moments;
    policy::MemoryRecipe recipe;
    policy::ParameterBytes& trained = recipe.trained;
    trained = {.value = bytes("store"), .grad = bytes("grad"), .master = bytes("master")};
    trained.moments = moments_of(config) * (state == "int8" ? eight_bit / 2 : bytes("opt_state"));
    if (bytes("accum") > trained.grad) trained.accum = bytes("accum");
    // Megatron keeps an fp32 copy of low-precision gradients for its master weights. DeepSpeed converts the gradients
    // without a copy.
    if (imported.framework == find_framework("megatron") && trained.accum == 0 && trained.grad < trained.master)
        trained.master_grad = trained.master;
    const bool has_low_operands = reads_low(config.word("compute"));
    const bool has_low_stream = is_low(config.word("embed").empty() ? trained.value : bytes("embed"));
    if (bytes("adapter") > 0) {
        recipe.frozen = trained.value;
        trained.value = bytes("adapter");
    } else if (trained.value == 4 && has_low_operands && !has_low_stream) {
        trained.cast =
            2;  // autocast and fp8 keep a 16-bit copy of the weights; FSDP does not, as it gathers one unit at a time
    }
    recipe.activations = form_of(has_low_stream, has_low_operands);
    const ResolvedField* field = config.find("ckpt");
    const bool* recomputes = field == nullptr ? nullptr : std::get_if<bool>(&field->value.value);
    recipe.recomputes = recomputes != nullptr && *recomputes;
    return recipe;
}

}  // namespace macheps::configs
