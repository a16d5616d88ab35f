// SPDX-License-Identifier: Apache-2.0
// Reads the keys of a policy rule that select linears which the rule does not change.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/layer_filter.hpp"

#include <string_view>

namespace macheps::policy {

/// Reads the value of one key of a rule into `choice`. Returns false if the key does not select linears. Throws Error
/// if the value is not valid for the key.
bool read_layer_key(const files::TomlReader& toml, std::string_view key, const toml::node& node, LayerChoice& choice);

}  // namespace macheps::policy
