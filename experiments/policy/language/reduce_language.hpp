// SPDX-License-Identifier: Apache-2.0
// Lists and reads the keys of the table [reduce] of a policy file.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/language/language.hpp"
#include "experiments/policy/policy.hpp"

#include <vector>

namespace macheps::policy {

std::vector<PolicyKey> reduce_keys();

/// Reads the table [reduce]. Throws Error for an unknown key or a wrong value.
ReduceConfig read_reduce(const files::TomlReader& toml, const toml::node& node);

}  // namespace macheps::policy
