// SPDX-License-Identifier: Apache-2.0
// Ranges of numbers among made inputs. A bug that no mutant has may show in one range alone: a maximum that begins at 0 in
// negative rows, an exponential that is cut off in rows far below zero. A least set has every range that any input has.
#pragma once
#include "experiments/check/draft.hpp"

#include <string_view>
#include <vector>

namespace macheps::check {

/// The names of the ranges that inputs of an operation on rows have; empty for products.
std::vector<std::string_view> data_ranges_of(const MadeInputs& inputs);

}  // namespace macheps::check
