// SPDX-License-Identifier: Apache-2.0
// Turns a plan into settings, cells and units: makes a sweep, or extends it by the additions to its plan.
#pragma once
#include "experiments/training/sweep/costs.hpp"
#include "experiments/training/sweep/plan_file.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <functional>
#include <string>

namespace macheps::training {

/// A plan after its policies were found and every policy was tried with every model.
struct Grown {
    Sweep sweep{};
    std::size_t new_units = 0;
    bool is_changed = false;  ///< sweep.json has to be written
};

/// `before` is the existing sweep, or an empty one. `note`, which may be empty, receives messages during long work.
/// Errors: throws Error, Exit::usage or Exit::bad_input, if a pattern matches nothing, if `macheps train` has no such
/// option, if a model cannot be trained with a policy, or if no run is left.
Grown grow(const Sweep& before, const PlanFile& plan, const TaskOf& task_of, Costs& costs,
           const std::function<void(const std::string&)>& note);

/// Returns the checksum of the plan's text, and of the policies and data files that it names, as they are now.
std::string plan_checksum(const PlanFile& plan, const std::vector<SweepPolicy>& policies);
/// Returns the policies that the plan names, fp32 first. Errors: as grow().
std::vector<SweepPolicy> policies_of(const PlanFile& plan);

}  // namespace macheps::training
