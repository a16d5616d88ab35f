// SPDX-License-Identifier: Apache-2.0
// The format in which PEFT keeps the adapters that it adds to a model.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string>
#include <string_view>

namespace macheps::configs {

/// A layer to which PEFT adds an adapter.
struct AdaptedLayer {
    char format = 'F';  ///< of the weight: F, H or B; in a quantised layer, the format of its operands
    char storage = 0;   ///< format in which a 4-bit weight of bitsandbytes is stored: F, H or B, or 0 for integers
    std::string_view quantised{};  ///< format of a quantised weight, such as nf4 or int8; otherwise empty
};

/// Returns the format of an adapter: F, H or B. `autocasts` is the argument autocast_adapter_dtype of get_peft_model.
char peft_adapter_format(const ImportContext& context, const AdaptedLayer& layer, bool autocasts = true);

/// Returns whether the user's version of PEFT has no argument autocast_adapter_dtype. From 0.6.0 on, such a version
/// gives adapters the format of their layers. Older versions make them in fp32.
bool peft_is_before_autocast(const ImportContext& context);

/// Returns why PEFT keeps adapters in a format, as the source of a field.
std::string peft_adapter_reason(const ImportContext& context, char format);

}  // namespace macheps::configs
