// SPDX-License-Identifier: Apache-2.0
// What a rule of a policy file says of the linears that it leaves as they were.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/layer_filter.hpp"

#include <string_view>

namespace macheps::policy {

/// Reads one key of a rule, and is false where it is another one. Throws Error for what is no value of it.
bool read_layer_key(const files::TomlReader& toml, std::string_view key, const toml::node& node, LayerChoice& choice);

}  // namespace macheps::policy
