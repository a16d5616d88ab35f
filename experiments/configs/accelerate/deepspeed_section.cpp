// SPDX-License-Identifier: Apache-2.0
// Source: accelerate/utils/dataclasses.py (DeepSpeedPlugin.set_mixed_precision) of 0.30.1 and 1.14.0. Accelerate calls
// this method with the precision of the Trainer of Transformers too.
#include "experiments/configs/accelerate/deepspeed_section.hpp"

namespace macheps::configs {

void fill_section(files::ConfigValue& section, std::string_view path, std::string_view written, bool makes_key) {
    files::ConfigValue* value = section.find(path);
    if (value != nullptr ? value->is_text() && value->written == "auto" : makes_key)
        section.set(path, files::yaml_scalar(written, value != nullptr ? value->place : section.place));
}

void add_precision_section(files::ConfigValue& section, std::string_view precision) {
    if (section.entries.empty()) return;
    if (precision == "fp16" && !section.entry("fp16")) {
        fill_section(section, "fp16.enabled", "true", true);
        fill_section(section, "fp16.auto_cast", "true", true);
    }
    if (precision == "bf16" && !section.entry("bf16")) fill_section(section, "bf16.enabled", "true", true);
}

std::optional<FindingText> clipping_unread(const ImportContext& context) {
    const files::ConfigValue* section = context.value("deepspeed");
    if (section == nullptr || !section->is_map() || !context.has("max_grad_norm")) return {};
    if (section->entry("gradient_clipping")) return {};
    return FindingText{
        "`max_grad_norm` is not read: DeepSpeed's engine clips the gradients, and its section does not set "
        "gradient_clipping",
        "\"gradient_clipping\": \"auto\" in DeepSpeed's section"};
}

}  // namespace macheps::configs
