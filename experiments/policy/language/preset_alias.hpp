// SPDX-License-Identifier: Apache-2.0
// Short names of presets. A policy that is named by a short name is loaded, and recorded, under the name of its preset.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace macheps::policy {

struct PresetAlias {
    std::string_view name;    ///< `bf16`
    std::string_view preset;  ///< `amp-bf16`
    std::string_view why;     ///< why a user of the short name means this preset
};

std::span<const PresetAlias> preset_aliases();

/// Returns the name of a preset as the list of presets spells it: in lower case, with hyphens instead of underscores,
/// and with the preset's own name instead of an alias. The name need not be known.
std::string preset_spelling(std::string_view name);

}  // namespace macheps::policy
