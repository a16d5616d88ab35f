// SPDX-License-Identifier: Apache-2.0
#include "core/host/version.hpp"

#include <cstring>

namespace macheps {

// revision.cpp.in
extern const char revision[96];

std::string version() { return MACHEPS_VERSION; }
std::string git_revision() { return revision; }
std::string git_year() { return revision + std::strlen(revision) + 1; }

}  // namespace macheps
