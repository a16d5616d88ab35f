// SPDX-License-Identifier: Apache-2.0
// Turns a plan into settings, cells and units. The result is a new sweep, or an existing sweep with the additions to
// its plan.
#pragma once
#include "experiments/training/sweep/costs.hpp"
#include "experiments/training/sweep/plan_file.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <functional>
#include <string>

namespace macheps::training {

/// Result of grow(). grow() has checked that every policy of the plan exists and that it can be used with every model.
struct Grown {
    Sweep sweep{};
    std::size_t new_units = 0;
    bool is_changed = false;  ///< sweep.json must be written
};

/// Adds the settings, cells and units of a plan to a sweep. `before` is the existing sweep, or an empty sweep. `note`,
/// which may be empty, receives progress messages. Errors: throws Error, Exit::usage or Exit::bad_input, if a pattern
/// matches nothing, if `macheps train` does not have an option of the plan, if a model cannot be trained with a policy,
/// or if the exclusions leave no runs.
Grown grow(const Sweep& before, const PlanFile& plan, const TaskOf& task_of, Costs& costs,
           const std::function<void(const std::string&)>& note);

/// Returns a checksum of the plan's text and of the current contents of the policies and data files that the plan
/// names.
std::string plan_checksum(const PlanFile& plan, const std::vector<SweepPolicy>& policies);
/// Returns the policies that the plan names, fp32 first. Errors: as grow().
std::vector<SweepPolicy> policies_of(const PlanFile& plan);

}  // namespace macheps::training
