// SPDX-License-Identifier: Apache-2.0
// Rounding errors of one step of a matrix unit, according to its row in the table of machines.
#pragma once
#include "emulation/machine/machine.hpp"

#include <optional>

namespace macheps::check {

/// Error model of one step of a machine.
struct StepModel {
    int terms = 1;                 ///< products per step
    bool cuts_products = false;    ///< products are truncated to multiples of the step's unit
    double other_cuts = 0;         ///< number of other values that are truncated likewise: C, sums of products
    double unit = 0, min_top = 0;  ///< unit: 2^-F; min_top: a zero or subnormal addend has the exponent of min_top
    double of_sum = 0;             ///< rounding error, relative to the partial sum after the step
    bool is_one_sided = false;     ///< the rounding of `of_sum` is a truncation
    double of_step = 0;            ///< further error, relative to the sum of |a b| of the step
    bool starts_anew = false;      ///< the step's products are summed and rounded before the partial sum is added
};

/// Returns the model, or nothing if the machine's sums are not a chain of steps.
std::optional<StepModel> step_model(const Machine& machine);

}  // namespace macheps::check
