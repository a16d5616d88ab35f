// SPDX-License-Identifier: Apache-2.0
// Writes a policy as a policy file that needs no other file: without `extends` and without recipes, and with every part
// of a cast as an explicit key.
#pragma once
#include "experiments/policy/policy.hpp"

#include <string>

namespace macheps::policy {

/// Returns a policy file that reads back as the same policy. Its rules come from the rules of the policy and of the
/// policies that it extends, in the same order, so it applies to every model.
std::string expanded_text(const Policy& policy);

/// Returns the file without its name, its description and its comments. Two policies with the same settings have the
/// same text, however their files are written.
std::string expanded_settings(const Policy& policy);

}  // namespace macheps::policy
