// SPDX-License-Identifier: Apache-2.0
// From a plan to settings, cells and units: a sweep made, or grown by what its plan has more than before.
#pragma once
#include "experiments/training/sweep/costs.hpp"
#include "experiments/training/sweep/plan_file.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <functional>
#include <string>

namespace macheps::training {

/// What a plan asks for, resolved: policies found, every policy tried against every model.
struct Grown {
    Sweep sweep{};
    std::size_t new_units = 0;
    bool is_changed = false;  ///< sweep.json is to be written
};

/// `before` is the sweep that stands there, or an empty one. `note`, which may be empty, is told what takes time.
/// Errors: throws Error, Exit::usage or Exit::bad_input, for what matches nothing, options that `macheps train` does not
/// have, policies that a model cannot take, and a product in which nothing is left.
Grown grow(const Sweep& before, const PlanFile& plan, const TaskOf& task_of, Costs& costs,
           const std::function<void(const std::string&)>& note);

/// Of the plan's text and the policies that it names, as they are now.
std::string plan_checksum(const PlanFile& plan, const std::vector<SweepPolicy>& policies);
/// The policies that the plan names, fp32 first. Errors: as grow.
std::vector<SweepPolicy> policies_of(const PlanFile& plan);

}  // namespace macheps::training
