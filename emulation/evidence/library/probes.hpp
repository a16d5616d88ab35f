// SPDX-License-Identifier: Apache-2.0
// Rows of `macheps verify` about libraries: cuBLASLt's results against MatmulRules, and the orders in which it adds.
// Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// The probes of cuBLASLt on a device; loads the library when the first one runs. A missing library, and a problem that
/// it refuses, are rows with the verdict `declined`. Where no rule agrees the row is `recorded`: nothing was claimed.
std::vector<evidence::ProbeGroup> library_probe_groups(int device);

/// A library, or why there is none.
struct LoadedLibrary {
    std::shared_ptr<MatmulLibrary> library{};
    std::string missing{};
};
/// The problems that a library is given.
struct LibraryQuestions {
    std::vector<LibraryProblem> products{}, orders{};  ///< whose bits are compared, and whose order is revealed
    std::string claim{};  ///< the rule that the library is said to follow; empty: what macheps claims
};
/// The same probes of the library that `load` gives; it is called once, by the first probe.
std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load);
std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load,
                                                       const LibraryQuestions& questions);

/// The problems, which the probes are named after.
std::vector<LibraryProblem> library_problems();
/// Those whose order of summation is revealed, as `reveal:` and their name.
std::vector<LibraryProblem> reveal_problems();

}  // namespace macheps::evidence
