// SPDX-License-Identifier: Apache-2.0
// Decides in which format a training should compute. All advice about formats uses this decision: findings of importers,
// `policy advise` and `diagnose`.
#pragma once
#include "experiments/configs/memory/device_profile.hpp"

#include <string_view>

namespace macheps::configs {

class ImportContext;

/// Returns the letter of the narrowest format in which a training is safe on a device: B if the device multiplies bf16,
/// otherwise H if it multiplies fp16, otherwise F. Weights that were trained in bf16 can cause activations beyond 65504,
/// the largest number of fp16, so H is replaced by F for them.
char training_format(const DeviceProfile& device, bool trained_in_bf16);
/// Returns the format for a config: its device, and the weights from which its training starts.
char training_format(const ImportContext& context);

/// Returns the preset that trains in a format of training_format(): amp-bf16, amp-fp16 or fp32.
std::string_view training_preset(char format);

/// The settings of a framework that train in bf16, and those that train in fp32.
struct FormatSettings {
    std::string_view framework, bf16, fp32;
};
/// Returns the settings of a framework, or nullptr if no keys of its config select these formats alone.
const FormatSettings* format_settings(std::string_view framework);

}  // namespace macheps::configs
