// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/framework.hpp"

#include <algorithm>
#include <iterator>

namespace macheps::configs {

namespace {

// TRL turns bf16 on by default, and `bf16: auto` of Axolotl does so too. In other frameworks, bf16 is off by default.
constexpr FormatSettings settings_rows[] = {
    {"transformers", "bf16: true with fp16: false", "fp16: false"},
    {"trl", "bf16: true with fp16: false", "fp16: false with bf16: false"},
    {"llamafactory", "bf16: true with fp16: false", "fp16: false"},
    {"axolotl", "bf16: true with fp16: false", "fp16: false with bf16: false"},
    {"accelerate", "mixed_precision: bf16", "mixed_precision: \"no\""},
    {"deepspeed", "bf16.enabled: true with fp16.enabled: false", "fp16.enabled: false"},
    {"composer", "precision: amp_bf16", "precision: fp32"},
    {"nanogpt", "dtype: bfloat16", "dtype: float32"},
};

}  // namespace

char training_format(const DeviceProfile& device, bool trained_in_bf16) {
    if (device.bf16) return 'B';
    return device.fp16 && !trained_in_bf16 ? 'H' : 'F';
}

char training_format(const ImportContext& context) {
    return training_format(context.device(), context.options().trained_in_bf16);
}

std::string_view training_preset(char format) {
    return format == 'B' ? "amp-bf16" : format == 'H' ? "amp-fp16" : "fp32";
}

const FormatSettings* format_settings(std::string_view framework) {
    const auto found = std::find_if(std::begin(settings_rows), std::end(settings_rows),
                                    [&](const FormatSettings& row) { return row.framework == framework; });
    return found == std::end(settings_rows) ? nullptr : &*found;
}

}  // namespace macheps::configs
