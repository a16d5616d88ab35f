// SPDX-License-Identifier: Apache-2.0
// Hydra's composition of a config from several files, and OmegaConf's interpolation and numbers.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs::hydra {

/// Composes the root from its `defaults` list. `group: NAME` and `group@package: NAME` are files in folders next to the
/// config or above it. `_self_` is the config itself, which comes last if the list does not name it. Later entries win.
/// Then replaces `${a.b}` by the value at that path, and texts such as `1e8` by numbers. A file that is missing or
/// leads back to itself is a finding.
void compose(ImportContext& context);

/// Returns whether the key is set to something other than null or an empty text, map or list.
bool is_set(const files::ConfigValue& root, std::string_view path);

}  // namespace macheps::configs::hydra
