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

    bool is_caught(const Line& line) const;
    /// What a set of inputs must show of a line: a fault of structure or scale for certain, where one of these inputs does.
    Sight sight_to_reach(const Line& line) const;
    /// What a check of this strictness must catch, and none of these inputs shows.
    std::vector<const Line*> blind(Power require) const;
};

/// A mutant of rows of another length drops another number of terms, and is the same line. What stands in brackets tells
/// those of one length apart.
std::string line_name(std::string_view mutant);

/// Runs every mutant on all inputs.
Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool);

/// Inputs that together show what all of them do, faults of structure and scale for certain where any input does so: each the
/// one that adds most to those before it; among equals the first.
std::vector<std::size_t> least_set(const Coverage& coverage);

}  // namespace macheps::check
