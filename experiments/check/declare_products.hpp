// SPDX-License-Identifier: Apache-2.0
// What only declarations of matrix products say.
#pragma once
#include "experiments/check/declare.hpp"

namespace macheps::check {

/// Of keys that say something of matrix products alone.
bool of_products(const Operation& operation, const DeclareKey& key);

std::vector<DeclareKey> product_keys();

}  // namespace macheps::check
