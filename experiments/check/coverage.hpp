// SPDX-License-Identifier: Apache-2.0
// What checks on made inputs would catch, before any kernel exists: wrong kernels by inputs, and a least set of inputs.
#pragma once
#include "core/thread_pool.hpp"
#include "experiments/check/draft.hpp"
#include "experiments/check/power.hpp"

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
    std::vector<Line> ranges{};            ///< ranges of numbers, and which inputs have them: data_ranges.hpp
    std::vector<InputPower> powers{};      ///< by inputs, as checks of them compute it; empty where they are declined

    bool is_caught(const Line& line) const;
    /// What a set of inputs must show of a line: a fault of structure or scale for certain, where one of these inputs does.
    Sight sight_to_reach(const Line& line) const;
    /// What a check of this strictness must catch, and none of these inputs shows.
    std::vector<const Line*> blind(Power require) const;
    /// Why a check of these inputs together would be weak.
    Weakness weakness(std::span<const std::size_t> inputs, Power require) const;
};

/// Runs every mutant on all inputs.
Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool);

/// Returns inputs that together show what all of them do, and have every range of numbers that any of them has. Faults of
/// structure and scale are shown for certain if any input shows them so. Each input adds the most to those before it, and the
/// first of equal ones is taken. If the bounds of most of their outputs are larger than the outputs, inputs with better
/// bounds follow: checks of the set together are not weak unless those of all inputs are.
std::vector<std::size_t> least_set(const Coverage& coverage);

}  // namespace macheps::check
