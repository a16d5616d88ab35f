// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/name_rules.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace macheps::configs::name_rules {

namespace {

bool holds(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

bool is_low(char weight) { return weight == 'H' || weight == 'B'; }

struct Family {
    std::string_view model_type;
    std::array<std::string_view, 2> embeddings;
};

constexpr Family families[] = {{"gpt_neox", {"embed_in", "embed_out"}},
                               {"falcon", {"word_embeddings", "lm_head"}},
                               {"nemotron_h", {"embeddings", "lm_head"}},
                               {"", {"embed_tokens", "lm_head"}}};  // all other families

constexpr std::string_view usual_norms[] = {"RMSNorm", "LayerNorm"};

}  // namespace

bool llamafactory_layernorm(std::string_view parameter, int dimensions) {
    return dimensions == 1 && (holds(parameter, "norm") || holds(parameter, "ln"));
}

bool llamafactory_lmhead(bool is_linear, char weight) { return is_linear && weight != 'F'; }

bool llamafactory_casts_trained(bool pure_bf16, bool badam, bool zero3, bool is_quantised) {
    return !pure_bf16 && !badam && !(zero3 && !is_quantised);
}

bool longspec_norm(std::string_view module) { return holds(module, "norm"); }

bool longspec_head(std::string_view module, bool has_weight, char weight, bool has_compute_dtype) {
    return (holds(module, "lm_head") || holds(module, "embed_tokens")) && has_weight && weight == 'F' &&
           has_compute_dtype;
}

std::span<const std::string_view> axolotl_embeddings(std::string_view model_type) {
    const auto is_it = [&](const Family& family) { return family.model_type == model_type; };
    const auto found = std::find_if(std::begin(families), std::end(families) - 1, is_it);
    return found->embeddings;
}

bool axolotl_casts(std::string_view module, bool has_weight, std::string_view model_type, bool is_first_pass) {
    if (holds(module, "norm")) return true;
    if (is_first_pass && module.ends_with(".gate")) return true;
    if (is_first_pass && model_type == "btlm") return false;
    const std::span<const std::string_view> embeddings = axolotl_embeddings(model_type);
    return has_weight && std::any_of(embeddings.begin(), embeddings.end(),
                                     [&](std::string_view name) { return holds(module, name); });
}

bool axolotl_fp32_norm(std::string_view qualified_class, std::span<const std::string_view> entries) {
    if (entries.empty()) entries = usual_norms;
    const std::string_view class_name = qualified_class.substr(qualified_class.rfind('.') + 1);
    return std::any_of(entries.begin(), entries.end(), [&](std::string_view entry) {
        if (entry.find_first_not_of(" \t\n") == std::string_view::npos) return false;
        return holds(entry, ".") ? qualified_class == entry : class_name.ends_with(entry);
    });
}

bool peft_casts_adapter(char weight) { return is_low(weight); }

bool peft_kbit_casts(char weight, bool is_4bit) { return is_low(weight) && !is_4bit; }

bool fsdp1_ignores(std::string_view class_name) {
    return class_name.starts_with("BatchNorm") || class_name == "SyncBatchNorm" || class_name == "_BatchNorm" ||
           class_name.starts_with("LazyBatchNorm");
}

}  // namespace macheps::configs::name_rules
