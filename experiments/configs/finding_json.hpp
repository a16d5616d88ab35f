// SPDX-License-Identifier: Apache-2.0
// Findings as JSON, for the program and the Python package.
#pragma once
#include "core/text/json.hpp"
#include "experiments/configs/finding.hpp"

namespace macheps::configs {

/// Returns a finding as JSON, in the form that the help of `policy import` describes.
Json finding_json(const Finding& finding);

}  // namespace macheps::configs
