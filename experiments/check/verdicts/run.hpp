// SPDX-License-Identifier: Apache-2.0
// Files judged: the arrays of one input, and all checks of a suite.
#pragma once
#include "experiments/check/checked.hpp"
#include "experiments/check/verdicts/suite.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace macheps::check {

/// Where the arrays of one input stand.
struct Inputs {
    std::vector<std::string> files{};
    std::map<std::string, std::string> arrays{};  ///< by role: the array's name there, where it has another
};

struct RunOptions {
    bool has_digests = false;  ///< of files and arrays
    bool keeps_limits = true;  ///< of every output; a suite's would fill the memory
};

/// Judges the arrays of files. Errors: throws Error as read_arrays() and pose() do, and for a name that no array has.
Checked check_files(const Declaration& declaration, const Inputs& inputs, const Options& options, const RunOptions& run,
                    ThreadPool& pool);

/// What is told of an input that `error` kept from being judged: its outcome is declined for errors of usage, else
/// bad_input.
Checked unjudged(const Declaration& declaration, std::string operation, std::string input, const Error& error);

/// Combines the power of the inputs of one check. A weak input passes unless all inputs together are weak.
void join_powers(std::span<Checked> inputs);

/// Judges a suite, one element for each file of each check. A wrong kernel that any input of a check catches is no
/// weakness of the others. What is wrong with an input is its outcome and ends nothing. Errors: throws Error (usage), before
/// anything is judged, for a pattern that no file matches.
std::vector<Checked> run_suite(const Suite& suite, bool has_digests, ThreadPool& pool);

}  // namespace macheps::check
