// SPDX-License-Identifier: Apache-2.0
// Finds which wrong kernels a check of generated inputs would catch, before any kernel exists. Selects a small set of
// inputs that catches all of these wrong kernels.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/inputs/draft.hpp"
#include "experiments/check/power/power.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

enum class Detection : std::uint8_t {
    none,       ///< the mutant does not apply to these inputs, or their outputs cannot be judged
    missed,     ///< a check would pass the mutant
    caught,     ///< a check refuses the mutant if its defect is its only error
    certified,  ///< a check refuses the mutant whatever rounding errors it makes besides its defect
};

struct Coverage {
    struct Line {
        std::string mutant;
        std::string_view kind;
        Power required_by = Power::structure;
        std::vector<Detection> detections{};  ///< one for each input
    };
    std::vector<std::string> inputs{};     ///< names of the inputs
    std::vector<std::int64_t> declined{};  ///< for each input: the first output that cannot be judged, or -1
    std::vector<Line> lines{};             ///< one for each mutant, in order of first occurrence
    std::vector<Line> ranges{};            ///< one for each range of numbers that any input has (data_ranges.hpp)
    std::vector<InputPower> powers{};      ///< one for each input, as a check computes it; empty if declined

    bool is_caught(const Line& line) const;
    /// Returns the detection that a selected set of inputs must reach for a line: `certified` if the line's mutant is
    /// of kind `structure` or `scale` and its detection is `certified` for at least one of the inputs, otherwise
    /// `caught`.
    Detection sight_to_reach(const Line& line) const;
    /// Returns the mutants that `require` demands and that none of these inputs catches.
    std::vector<const Line*> blind(Power require) const;
    /// Returns why a check of the given inputs together would be weak.
    Weakness weakness(std::span<const std::size_t> inputs, Power require) const;
};

/// Runs every mutant on all inputs.
Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool);

/// Returns a set of inputs that catches every mutant that any input catches, and has every range of numbers that any
/// input has. If any input reaches `certified` for a fault of structure or scale, the set reaches it too. The set is
/// built greedily: each step adds the input that contributes the most new mutants and ranges. If several inputs
/// contribute the same number, the first one is added. If the bounds of most outputs in the set are larger than the
/// outputs, inputs with better bounds are added. A check of the set is therefore weak only if a check of all inputs is
/// weak.
std::vector<std::size_t> least_set(const Coverage& coverage);

}  // namespace macheps::check
