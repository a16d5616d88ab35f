// SPDX-License-Identifier: Apache-2.0
// Values of the option --round.
#pragma once
#include "core/rounding.hpp"

#include <string>

namespace macheps::cmd {

/// Returns the rounding mode with this name or acronym, in upper or lower case. Throws Error (usage) and suggests the
/// nearest name.
Round round_named(const std::string& name);

}  // namespace macheps::cmd
