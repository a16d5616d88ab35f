// SPDX-License-Identifier: Apache-2.0
// What one step of a matrix unit loses, from its row.
#pragma once
#include "emulation/machine/machine.hpp"

#include <optional>

namespace macheps::check {

/// What one step of a machine loses.
struct StepModel {
    int terms = 1;                   ///< products between two partial sums
    bool cuts_products = false;      ///< at the step's unit
    double other_cuts = 0;           ///< numbers beside single products that are cut there: C, groups of products
    double unit = 0, least_top = 0;  ///< 2^-F; the power of two that a zero addend counts as
    double of_sum = 0;               ///< relative to the partial sum after the step
    bool is_one_sided = false;       ///< that rounding is a cut
    double of_step = 0;              ///< relative to the magnitudes of the step's products
    bool starts_anew = false;        ///< its sum does not meet the partial sum before it is rounded
};

/// Nothing for sums that are no chain of steps.
std::optional<StepModel> step_model(const Machine& machine);

}  // namespace macheps::check
