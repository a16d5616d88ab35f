// SPDX-License-Identifier: Apache-2.0
// Reads which versions of packages a Python environment has: requirements.txt, the output of `pip freeze`, uv.lock and
// poetry.lock.
#pragma once
#include "experiments/configs/versions.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace macheps::configs {

/// The versions in one file, by the name under which the importers and the history of faults know the package
/// ("megatron" for the distribution megatron-core).
struct Requirements {
    std::map<std::string, FrameworkVersion, std::less<>> versions;
    /// Packages for which the file does not name one version, with what it says instead: ">=4.46".
    std::map<std::string, std::string, std::less<>> inexact;
};

/// Returns the name under which macheps knows a distribution of PyPI, in the normal form of such names (lower case,
/// words joined by hyphens).
std::string package_of_distribution(std::string_view distribution);

/// Reads a file. Throws Error (bad input) for a file that cannot be read, and for one in which no line names a package.
Requirements read_requirements(const std::string& path);

}  // namespace macheps::configs
