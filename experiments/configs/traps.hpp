// SPDX-License-Identifier: Apache-2.0
// Numerical traps that every importer shares. They depend only on the fields of the result, and not on the keys of one
// framework, so an importer does not need rules for them.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

/// Reports each trap that the fields show. A trap is left out if a rule of the importer has reported it,
/// which names the key to change. Call this function after the importer has set all fields.
void report_traps(ImportContext& context);

}  // namespace macheps::configs
