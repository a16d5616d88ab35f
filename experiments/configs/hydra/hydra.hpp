// SPDX-License-Identifier: Apache-2.0
// Hydra's composition of a config out of several files, and OmegaConf's interpolation and numbers.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs::hydra {

/// Composes the root from its `defaults` list: `group: NAME` and `group@package: NAME` are files of folders beside the config
/// or above it, `_self_` is the config itself (last where the list does not name it), later ones win. Then `${a.b}` becomes
/// the value at that path, and `1e8` a number. What is missing or circular is a finding.
void compose(ImportContext& context);

/// True where the key holds something: no null, no empty text, map or list.
bool is_set(const files::ConfigValue& root, std::string_view path);

}  // namespace macheps::configs::hydra
