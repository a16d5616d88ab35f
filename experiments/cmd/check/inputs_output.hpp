// SPDX-License-Identifier: Apache-2.0
// What inputs would catch, for people and for programs.
#pragma once
#include "core/text/json.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/inputs.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::checks {

/// The table of wrong kernels by inputs, the least set of inputs, and what none of them shows.
std::string coverage_text(const check::InputPlan& plan, const check::Coverage& coverage,
                          const std::vector<std::size_t>& least, check::Power require);
Json coverage_json(const check::InputPlan& plan, const check::Coverage& coverage, const std::vector<std::size_t>& least,
                   check::Power require);

/// Returns one line that explains why checks of all inputs together would be weak.
std::string weakness_text(const check::Weakness& weakness);

/// What all files would catch together, in a few lines.
std::string made_text(const check::Coverage& coverage);

/// The recipes of an operation's kind, with what they are for.
std::string recipes_text();

}  // namespace macheps::cmd::checks
