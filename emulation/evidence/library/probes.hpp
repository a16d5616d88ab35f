// SPDX-License-Identifier: Apache-2.0
// Probes of libraries for `macheps verify`. They compare the results of cuBLASLt with MatmulRules, and find the orders
// in which it adds. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"
#include "emulation/evidence/probe.hpp"

namespace macheps::evidence {

/// Returns the probes of cuBLASLt on a device. The first probe that runs loads the library. If the library is missing
/// or refuses a problem, the verdict is `declined`. If no rule is claimed for a problem, the verdict is `recorded`.
std::vector<evidence::ProbeGroup> library_probe_groups(int device);

/// A library, or the reason why it is missing.
struct LoadedLibrary {
    std::shared_ptr<MatmulLibrary> library{};
    std::string missing{};
};
/// The problems on which a library is probed, and the claimed rule.
struct LibraryQuestions {
    std::vector<LibraryProblem> products{}, orders{};  ///< problems to compare bits, and to find the order
    std::string claim{};                               ///< the claimed rule; if empty, macheps' own claims apply
};
/// Returns the probes of the library that `load` returns. Only the first probe that runs calls `load`.
std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load);
std::vector<evidence::ProbeGroup> library_probe_groups(std::function<LoadedLibrary()> load,
                                                       const LibraryQuestions& questions);

/// Returns the problems whose results are compared. Each probe has the name of its problem.
std::vector<LibraryProblem> library_problems();
/// Returns the problems whose order of summation is found. The name of each probe is `reveal:` and the name of its
/// problem.
std::vector<LibraryProblem> reveal_problems();

}  // namespace macheps::evidence
