// SPDX-License-Identifier: Apache-2.0
// Finds which wrong kernels checks on generated inputs would catch before any kernel exists, and a small set of inputs
// that catches all of these.
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
    none,       ///< these inputs do not have the mutant, or their outputs cannot be judged
    missed,     ///< the check would pass
    caught,     ///< the tests refuse a kernel that is otherwise ideal
    certified,  ///< the tests refuse the kernel whatever else it does
};

struct Coverage {
    struct Line {
        std::string mutant;
        std::string_view kind;
        Power required_by = Power::structure;
        std::vector<Detection> detections{};  ///< one for each input
    };
    std::vector<std::string> inputs{};     ///< their names
    std::vector<std::int64_t> declined{};  ///< for each input: the first output that cannot be judged, or -1
    std::vector<Line> lines{};             ///< one for each mutant, in order of first occurrence
    std::vector<Line> ranges{};            ///< one for each range of numbers that any input has (data_ranges.hpp)
    std::vector<InputPower> powers{};      ///< one for each input, as a check computes it; empty if declined

    bool is_caught(const Line& line) const;
    /// Returns how certainly a set of inputs must show a line. Faults of structure or scale must be certified if any of
    /// these inputs certifies them.
    Detection sight_to_reach(const Line& line) const;
    /// Returns the mutants that a check with this `require` must catch and that none of these inputs shows.
    std::vector<const Line*> blind(Power require) const;
    /// Returns why a check of all these inputs together would be weak.
    Weakness weakness(std::span<const std::size_t> inputs, Power require) const;
};

/// Runs every mutant on all inputs.
Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool);

/// Returns a set of inputs that shows everything that all inputs show and has every range of numbers that any input
/// has. If any input shows a fault of structure or scale for certain, the set shows it for certain. Each input is the
/// one that adds the most to those before it; the first is taken if several add the same. If the bounds of most outputs
/// are larger than the outputs, inputs with better bounds are added: a check of the set is weak only if a check of all
/// inputs is weak.
std::vector<std::size_t> least_set(const Coverage& coverage);

}  // namespace macheps::check
