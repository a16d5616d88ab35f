// SPDX-License-Identifier: Apache-2.0
// Keys of a rule in a policy file that select the linears that it leaves as they were.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/layer_filter.hpp"

#include <string_view>

namespace macheps::policy {

/// Reads one key of a rule. Returns false if the key is not one of these. Throws Error if the value does not fit the
/// key.
bool read_layer_key(const files::TomlReader& toml, std::string_view key, const toml::node& node, LayerChoice& choice);

}  // namespace macheps::policy
