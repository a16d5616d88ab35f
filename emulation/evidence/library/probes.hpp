// SPDX-License-Identifier: Apache-2.0
// Rows of `macheps verify` about libraries: the results of cuBLASLt against MatmulRules, and the orders in which it
// adds. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of cuBLASLt on a device. The first one that runs loads the library. If the library is missing or
/// refuses a problem, the verdict is `declined`. If no rule is claimed for a problem, the verdict is `recorded`.
std::vector<evidence::ProbeGroup> library_probe_groups(int device);

/// A library, or the reason why it is missing.
struct LoadedLibrary {
    std::shared_ptr<MatmulLibrary> library{};
    std::string missing{};
};
/// The problems that a library is given.
struct LibraryQuestions {
    std::vector<LibraryProblem> products{}, orders{};  ///< whose bits are compared, and whose order is revealed
    std::string claim{};                               ///< the rule to claim; empty: the rules that macheps claims
};
/// Returns the same probes for the library that `load` returns. The first probe calls `load`, once.
std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load);
std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load,
                                                       const LibraryQuestions& questions);

/// Returns the problems, after which the probes are named.
std::vector<LibraryProblem> library_problems();
/// Returns the problems whose order of summation is revealed. Their probes are called `reveal:` and the name of the
/// problem.
std::vector<LibraryProblem> reveal_problems();

}  // namespace macheps::evidence
