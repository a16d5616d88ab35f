// SPDX-License-Identifier: Apache-2.0
// A cast of a policy file: a text such as "e4m3fn/tensor" (cast_rule.cpp), or a table with the same words as keys.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/policy.hpp"

#include <string>

namespace macheps::policy {

/// Reads the cast of `slot`. Throws Error if the node is not a cast.
CastRule read_cast(const files::TomlReader& toml, const toml::node& node, const std::string& slot);

}  // namespace macheps::policy
