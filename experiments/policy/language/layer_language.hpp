// SPDX-License-Identifier: Apache-2.0
// Reads the keys of a policy rule that exclude linears from the rule.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/layer_filter.hpp"

#include <string_view>

namespace macheps::policy {

/// Reads the key into `choice` if it is a key of LayerChoice: `filter`, `multiple_of`, `skip_first_blocks` or
/// `skip_last_blocks`. Returns false for all other keys. Throws Error if the value is not valid for the key.
bool read_layer_key(const files::TomlReader& toml, std::string_view key, const toml::node& node, LayerChoice& choice);

}  // namespace macheps::policy
