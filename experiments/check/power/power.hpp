// SPDX-License-Identifier: Apache-2.0
// Measures the power of a check: the wrong kernels that its tests would refuse. The outputs of wrong kernels are
// computed from the exact results.
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

/// A meaningless output, such as zeros. A check must refuse it, and the limits that a user sets must not accept it.
struct NullOutput {
    std::string name;
    std::function<double(std::size_t i)> value;  ///< returns output i; valid while the problem and the limits exist
    OutputRange changes{};                       ///< outputs that may be wrong; empty: all outputs
};
std::vector<NullOutput> null_outputs(const Problem& problem, const Limits& limits, ThreadPool& pool);
std::vector<double> values_of(const NullOutput& output, const Limits& limits);

/// A wrong kernel that evaluates the operation's list of nodes with a defect.
struct WrongList {
    std::string name;
    std::string_view kind;
    Defect defect;
    /// True for a shortcut that a kernel may declare. Such a kernel is tried only on the first parts of the outputs,
    /// because inputs that expose a shortcut usually expose it there. The kernel returns correct values for outputs
    /// that are not finite. A check therefore has to catch the shortcut on ordinary numbers, and not only because of
    /// infinities in the inputs.
    bool is_shortcut = false;
};

/// Returns the wrong kernels of the operation that evaluate a defective list of nodes.
std::vector<WrongList> wrong_lists(const Problem& problem);

/// Tries all wrong kernels and returns which of them the tests catch. `bits` holds the outputs of the claimed machine,
/// or is null if the kernel does not claim bits. `premise` decides whether T2 and T3 apply to this data. If `premise`
/// is null, the function creates one.
std::vector<Mutant> run_mutants(const Problem& problem, const Limits& limits, const MachineOutputs* bits,
                                ThreadPool& pool, Premise* premise = nullptr);

/// The power of a check on one input: statistics of its bounds, and the wrong kernels with the result of their trial.
/// Checks, suites and make-inputs use this to decide whether a check is weak.
struct InputPower {
    Fitness fitness{};
    std::vector<Mutant> mutants{};
};
InputPower power_of(const Problem& problem, const Limits& limits, const MachineOutputs* bits, ThreadPool& pool,
                    Premise* premise = nullptr);

/// Returns the name of a wrong kernel without its number of dropped terms: "last terms dropped (K mod 8)" for "last 7
/// terms dropped (K mod 8)". The same kernel drops different numbers of terms from inputs of different sizes.
std::string line_name(std::string_view mutant);

/// The reasons why a check with several inputs is weak.
struct Weakness {
    bool is_unguaranteed = false;       ///< the bounds of most outputs are larger than the outputs
    std::vector<std::string> missed{};  ///< line_name() of each wrong kernel that no input catches, by first occurrence

    bool is_any() const { return is_unguaranteed || !missed.empty(); }
    bool has(std::string_view mutant) const;
};
/// Returns why a check with these inputs would be weak. A wrong kernel counts as caught if at least one input catches
/// it. `require` selects the classes of wrong kernels that must be caught.
Weakness weakness_of(std::span<const InputPower* const> inputs, Power require);

/// Sets Mutant::threshold of each wrong kernel whose fault has a size, such as a number of dropped terms. The threshold
/// is the size from which on the check notices the fault.
void set_thresholds(const Sharpness& sharpness, std::vector<Mutant>& mutants);
Sharpness sharpness_of(const Problem& problem, const Limits& limits, const Judgement& judgement, ThreadPool& pool,
                       Premise* premise = nullptr);

}  // namespace macheps::check
