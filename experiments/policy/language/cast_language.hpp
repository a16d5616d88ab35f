// SPDX-License-Identifier: Apache-2.0
// Reads casts in a policy file. A cast is a text such as "e4m3fn/tensor" (parsed by cast_rule.cpp), or a table that
// sets each part of a cast with a key.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/policy.hpp"

#include <string>

namespace macheps::policy {

/// Reads the cast that `node` gives for `slot`. Throws Error if the node is not a cast.
CastRule read_cast(const files::TomlReader& toml, const toml::node& node, const std::string& slot);

}  // namespace macheps::policy
