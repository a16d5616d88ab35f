// SPDX-License-Identifier: Apache-2.0
// Judges files: the arrays of one input, or all checks of a suite.
#pragma once
#include "experiments/check/checked.hpp"
#include "experiments/check/verdicts/suite.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace macheps::check {

/// The files of one input, and the names of its arrays.
struct Inputs {
    std::vector<std::string> files{};
    std::map<std::string, std::string> arrays{};  ///< from a role to the array's name in the file, if they differ
};

struct RunOptions {
    bool has_digests = false;  ///< compute digests of files and arrays
    bool keeps_limits = true;  ///< keep the limits of every output; in a suite, they would take too much memory
};

/// Judges the arrays in the files of one input. Errors: throws Error as read_arrays() and pose() do, and if an array
/// with a given name does not exist.
Checked check_files(const Declaration& declaration, const Inputs& inputs, const Options& options, const RunOptions& run,
                    ThreadPool& pool);

/// Returns the result for an input that could not be judged because of `error`. Its outcome is declined for usage
/// errors, otherwise bad_input.
Checked unjudged(const Declaration& declaration, std::string operation, std::string input, const Error& error);

/// Combines the inputs of one check. A weak input passes if each wrong kernel that it misses is caught by another
/// input.
void join_powers(std::span<Checked> inputs);
/// Combines the inputs of one check as join_powers() does. Also removes hints that do not explain all failing inputs,
/// and adds advice to a weak check.
void join_inputs(std::span<Checked> inputs, ThreadPool& pool);

/// Judges the inputs of one check, and returns one element for each. If any of them catches a wrong kernel, the others
/// are not weak for missing it. An error of one input becomes its outcome, and the check continues. `check.files` is not
/// used.
std::vector<Checked> run_check(const SuiteCheck& check, std::span<const Inputs> inputs, bool has_digests,
                               ThreadPool& pool);

/// Judges each check of a suite as run_check() does. Returns one element for each file of each check. Errors: throws Error (usage) before anything is judged if a pattern matches no file.
std::vector<Checked> run_suite(const Suite& suite, bool has_digests, ThreadPool& pool);

}  // namespace macheps::check
