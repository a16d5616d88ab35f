// SPDX-License-Identifier: Apache-2.0
// What checks on made inputs would catch, before any kernel exists: wrong kernels by inputs, and a least set of inputs.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/inputs/draft.hpp"
#include "experiments/check/power/power.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

enum class Sight : std::uint8_t {
    none,       ///< these inputs have no such mutant, or nothing can be said of their outputs
    missed,     ///< the check passes
    caught,     ///< the tests refuse an otherwise ideal kernel
    certified,  ///< and whatever else it does
};

struct Coverage {
    struct Line {
        std::string mutant;
        std::string_view kind;
        Power required_by = Power::structure;
        std::vector<Sight> sights{};  ///< by inputs
    };
    std::vector<std::string> inputs{};     ///< their names
    std::vector<std::int64_t> declined{};  ///< by inputs: the first output of which nothing can be said, or -1
    std::vector<Line> lines{};             ///< in the order in which mutants first occur
    std::vector<Line> ranges{};            ///< ranges of numbers, and the inputs that have them (data_ranges.hpp)
    std::vector<InputPower> powers{};      ///< one for each input, as a check computes it; empty if declined

    bool is_caught(const Line& line) const;
    /// What a set of inputs must show of a line: a fault of structure or scale for certain, where one of these inputs does.
    Sight sight_to_reach(const Line& line) const;
    /// What a check of this strictness must catch, and none of these inputs shows.
    std::vector<const Line*> blind(Power require) const;
    /// Returns why a check of all these inputs together would be weak.
    Weakness weakness(std::span<const std::size_t> inputs, Power require) const;
};

/// Runs every mutant on all inputs.
Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool);

/// Returns a set of inputs that shows everything that all inputs show and has every range of numbers that any input has. If any
/// input shows a fault of structure or scale for certain, the set shows it for certain. Each input is the one that adds the most
/// to those before it; the first is taken if several add the same. If the bounds of most outputs are larger than the outputs,
/// inputs with better bounds are added: a check of the set is weak only if a check of all inputs is weak.
std::vector<std::size_t> least_set(const Coverage& coverage);

}  // namespace macheps::check
