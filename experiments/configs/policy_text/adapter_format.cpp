// SPDX-License-Identifier: Apache-2.0
// Sources: peft/tuners/lora.py of 0.2.0 to 0.5.0, tuners/lora/layer.py of 0.6.0, 0.7.1, 0.9.0, 0.10.0 and 0.11.1,
// peft/mapping.py and tuners/tuners_utils.py of 0.12.0, 0.14.0, 0.18.1, 0.19.0 and 0.21.2.
#include "experiments/configs/policy_text/adapter_format.hpp"
#include "experiments/configs/policy_text/name_rules.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

namespace macheps::configs {

namespace {

/// Returns the format to which PEFT converts an adapter when it adds the adapter, or F if PEFT does not convert it. The
/// weight of a quantised layer usually consists of integers. A 4-bit weight of bitsandbytes may be stored as numbers of
/// 16 bits, whose format counts. From 0.19.0 on, the compute dtype of such a layer counts.
char format_of(const ImportContext& context, const AdaptedLayer& layer) {
    if (layer.quantised.empty()) return layer.format;
    if (layer.quantised != "nf4" && layer.quantised != "fp4") return 'F';
    const std::optional<FrameworkVersion> version = context.known_version("peft");
    if (!version || *version >= parse_version("0.19.0")) return layer.format;
    return layer.storage == 0 ? 'F' : layer.storage;
}

/// Returns whether PEFT makes adapters in fp32 and moves them to the device of their layer, but not to its format.
bool peft_only_moves(const ImportContext& context) {
    const std::optional<FrameworkVersion> version = context.known_version("peft");
    return version && *version < parse_version("0.6.0");
}

}  // namespace

bool peft_is_before_autocast(const ImportContext& context) {
    const std::optional<FrameworkVersion> version = context.known_version("peft");
    return version && *version < parse_version("0.12.0");
}

char peft_adapter_format(const ImportContext& context, const AdaptedLayer& layer, bool autocasts) {
    if (peft_only_moves(context)) return 'F';
    const char format = format_of(context, layer);
    const bool casts = autocasts && !peft_is_before_autocast(context);
    return casts && name_rules::peft_casts_adapter(format) ? 'F' : format;
}

std::string peft_adapter_reason(const ImportContext& context, char format) {
    if (format == 'F') return "PEFT keeps adapters in fp32";
    return peft_is_before_autocast(context)
               ? fmt::format("PEFT {} gives adapters the format of their layers, {}",
                             to_string(*context.known_version("peft")), format_word(format))
               : fmt::format("PEFT gives adapters the format of their layers, {}", format_word(format));
}

}  // namespace macheps::configs
