// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/agreement.hpp"

#include "experiments/check/judge/judge.hpp"

namespace macheps::check {

namespace {

/// Returns whether the fault is a bug. The other faults are shortcuts that a kernel may declare, other roundings, and
/// maxima that start at a constant.
bool is_bug(const WrongList& wrong) {
    return !wrong.is_shortcut && wrong.defect.form.empty() && wrong.defect.functions.empty() && !wrong.defect.start;
}

bool agrees(const Problem& problem, const Defect& defect, NumberView out, double delta, ThreadPool& pool) {
    Problem read = problem;
    read.inputs = Mutated(problem, defect).inputs();
    const Limits limits = limits_of(read, delta, pool, defect);
    if (limits.declined >= 0 || fitness_of(read, limits).lost_share > 0.5) return false;
    return judge(limits, out, {.stops_at_first = true, .pool = &pool}).reasons.empty();
}

}  // namespace

std::vector<std::string> agreeing_kernels(const Problem& problem, NumberView out, double delta, ThreadPool& pool) {
    std::vector<std::string> names;
    for (const WrongList& wrong : wrong_lists(problem)) {
        if (is_bug(wrong) && agrees(problem, wrong.defect, out, delta, pool)) names.push_back(wrong.name);
    }
    return names;
}

}  // namespace macheps::check
