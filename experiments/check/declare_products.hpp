// SPDX-License-Identifier: Apache-2.0
// What only declarations of matrix products say.
#pragma once
#include "experiments/check/declare.hpp"

namespace macheps::check {

std::vector<DeclareKey> product_keys();

}  // namespace macheps::check
