// SPDX-License-Identifier: Apache-2.0
// Reports on the wrong kernels that inputs would catch, as text and JSON.
#pragma once
#include "core/text/json.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/inputs.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::checks {

/// Returns the table of wrong kernels by inputs, the inputs of the least set, and the required wrong kernels that no
/// input reveals.
std::string coverage_text(const check::InputPlan& plan, const check::Coverage& coverage,
                          const std::vector<std::size_t>& least, check::Power require);
Json coverage_json(const check::InputPlan& plan, const check::Coverage& coverage, const std::vector<std::size_t>& least,
                   check::Power require);

/// Returns one line that explains why checks of all inputs together would be weak.
std::string weakness_text(const check::Weakness& weakness);

/// Returns how many wrong kernels all files would catch together, and which ones they would not.
std::string made_text(const check::Coverage& coverage);

/// Returns the list of all recipes, by kind of operation, with the wrong kernels that each reveals.
std::string recipes_text();

}  // namespace macheps::cmd::checks
