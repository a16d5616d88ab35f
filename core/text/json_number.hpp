// SPDX-License-Identifier: Apache-2.0
// Writes numbers to the JSON documents of macheps. JSON has no infinity and no NaN, so these become strings. Host only.
#pragma once
#include "core/text/json.hpp"
#include "core/text/print.hpp"

#include <cmath>

namespace macheps {

inline Json json_number(double x) { return std::isfinite(x) ? Json(x) : Json(decimal(x)); }

}  // namespace macheps
