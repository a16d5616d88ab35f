// SPDX-License-Identifier: Apache-2.0
// Options that every program with Hydra accepts, in addition to overrides such as `trainer.lr=1`. They are not keys of
// the config. Source: hydra/_internal/utils.py of hydra-core 1.3.2 (get_args_parser).
#pragma once
#include <string_view>

namespace macheps::files {

struct HydraOption {
    std::string_view name, short_name;  ///< without dashes: "config-name", "cn"
    bool takes_value = false;
};

inline constexpr HydraOption hydra_options[] = {
    {"cfg", "c", true},
    {"config-dir", "cd", true},
    {"config-name", "cn", true},
    {"config-path", "cp", true},
    {"experimental-rerun", "experimental-rerun", true},
    {"help", "h"},
    {"hydra-help", "hydra-help"},
    {"info", "i"},  // may have a value, which is not an override
    {"multirun", "m"},
    {"package", "p", true},
    {"resolve", "resolve"},
    {"run", "r"},
    {"shell-completion", "sc"},
    {"version", "version"},
};

/// Returns the option with this name, or nullptr. The name has no dashes in front.
constexpr const HydraOption* find_hydra_option(std::string_view name) {
    for (const HydraOption& option : hydra_options) {
        if (option.name == name || option.short_name == name) return &option;
    }
    return nullptr;
}

}  // namespace macheps::files
