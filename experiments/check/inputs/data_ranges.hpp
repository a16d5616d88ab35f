// SPDX-License-Identifier: Apache-2.0
// Ranges of numbers in generated inputs. A bug that no mutant represents may have an effect in only one range. For
// example, a maximum that starts at 0 fails only for negative rows, and an exponential that is cut off fails only for
// rows far below zero. least_set() therefore covers every range that any input has.
#pragma once
#include "experiments/check/inputs/draft.hpp"

#include <string_view>
#include <vector>

namespace macheps::check {

/// Returns the names of the ranges that inputs of a row operation have; empty for products.
std::vector<std::string_view> data_ranges_of(const MadeInputs& inputs);

}  // namespace macheps::check
