// SPDX-License-Identifier: Apache-2.0
// Reports on the wrong kernels that inputs would catch, as text and JSON.
#pragma once
#include "core/text/json.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/inputs.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::checks {

/// Returns a table that shows which inputs reveal which wrong kernels, the inputs of the least set, and the wrong
/// kernels that `require` demands and no input reveals.
std::string coverage_text(const check::InputPlan& plan, const check::Coverage& coverage,
                          const std::vector<std::size_t>& least, check::Power require);
Json coverage_json(const check::InputPlan& plan, const check::Coverage& coverage, const std::vector<std::size_t>& least,
                   check::Power require);

/// Returns one line that explains why checks of all inputs together would be weak.
std::string weakness_text(const check::Weakness& weakness);

/// Returns how many wrong kernels the files would catch together, and the names of the wrong kernels that they would
/// miss.
std::string made_text(const check::Coverage& coverage);

/// Returns the next steps after make-inputs: how to run a kernel on the files in `folder`, and how to check its outputs.
std::string next_text(const check::MadeInputs& inputs, const std::string& folder, const std::string& ending);

/// Returns a list of all recipes, grouped by kind of operation. It says which errors each recipe exposes.
std::string recipes_text();

}  // namespace macheps::cmd::checks
