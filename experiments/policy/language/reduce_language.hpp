// SPDX-License-Identifier: Apache-2.0
// [reduce] of a policy file: its keys, and what a file says of them.
#pragma once
#include "experiments/files/config/toml_reader.hpp"
#include "experiments/policy/language/language.hpp"
#include "experiments/policy/policy.hpp"

#include <vector>

namespace macheps::policy {

std::vector<PolicyKey> reduce_keys();

/// Reads the table. Throws Error for what is no key or no value of it.
ReduceConfig read_reduce(const files::TomlReader& toml, const toml::node& node);

}  // namespace macheps::policy
