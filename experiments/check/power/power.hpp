// SPDX-License-Identifier: Apache-2.0
// The power of a check: wrong kernels, made from the exact results, that its tests must refuse.
#pragma once
#include "experiments/check/bounds/fitness.hpp"
#include "experiments/check/judge/bits.hpp"
#include "experiments/check/power/mutated.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// The output of a kernel that computes nothing. A user's own limits are also tried on such outputs.
struct NullOutput {
    std::string name;
    std::function<double(std::size_t i)> value;  ///< value of output i; valid while the problem and the limits live
    OutputRange changes{};                       ///< outputs that may be wrong; empty: any
};
std::vector<NullOutput> null_outputs(const Problem& problem, const Limits& limits, ThreadPool& pool);
std::vector<double> values_of(const NullOutput& output, const Limits& limits);

/// Tries all wrong kernels. `bits` are the outputs of the claimed machine, or null if no bits are claimed. `premise`
/// says whether T2 and T3 decide on this data; if it is null, a new one is made here.
std::vector<Mutant> run_mutants(const Problem& problem, const Limits& limits, const MachineOutputs* bits,
                                ThreadPool& pool, Premise* premise = nullptr);

/// The faults that a check of one input could detect. Checks, suites and make-inputs use it to decide whether a check
/// is weak.
struct InputPower {
    Fitness fitness{};
    std::vector<Mutant> mutants{};
};
InputPower power_of(const Problem& problem, const Limits& limits, const MachineOutputs* bits, ThreadPool& pool,
                    Premise* premise = nullptr);

/// Returns the name of the wrong kernel that a mutant represents. A kernel that ignores a tail drops more terms of some
/// rows than of others, so the count in "last 7 terms dropped (K mod 8)" is left out.
std::string line_name(std::string_view mutant);

/// The reasons why checks of some inputs together are weak.
struct Weakness {
    bool is_unguaranteed = false;       ///< the bounds of most outputs are larger than the outputs
    std::vector<std::string> missed{};  ///< line names that no input shows, in order of first occurrence

    bool is_any() const { return is_unguaranteed || !missed.empty(); }
    bool has(std::string_view mutant) const;
};
/// Returns why a check of these inputs would be weak. A wrong kernel counts as shown if any input shows it. `require`
/// selects the wrong kernels that have to be shown.
Weakness weakness_of(std::span<const InputPower* const> inputs, Power require);

/// Sets the thresholds of mutants that have a size.
void set_thresholds(const Sharpness& sharpness, std::vector<Mutant>& mutants);
Sharpness sharpness_of(const Problem& problem, const Limits& limits, const Judgement& judgement, ThreadPool& pool,
                       Premise* premise = nullptr);

}  // namespace macheps::check
