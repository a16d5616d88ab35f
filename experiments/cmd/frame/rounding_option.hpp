// SPDX-License-Identifier: Apache-2.0
// The option --round of the verbs that have one.
#pragma once
#include "core/rounding.hpp"

#include <string>

namespace macheps::cmd {

/// The rounding mode of that name or acronym, in either case. Throws Error (usage) with the nearest name.
Round round_named(const std::string& name);

}  // namespace macheps::cmd
