// SPDX-License-Identifier: Apache-2.0
// Numbers in the JSON documents of macheps. JSON has no infinities and no NaN, so these are strings. Host only.
#pragma once
#include "core/text/json.hpp"
#include "core/text/print.hpp"

#include <cmath>

namespace macheps {

inline Json json_number(double x) { return std::isfinite(x) ? Json(x) : Json(decimal(x)); }

}  // namespace macheps
