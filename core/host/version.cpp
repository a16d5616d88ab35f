// SPDX-License-Identifier: Apache-2.0
#include "core/host/version.hpp"

namespace macheps {

// revision.cpp.in
extern const char revision[96];
extern const char revision_year[8];

std::string version() { return MACHEPS_VERSION; }
std::string git_revision() { return revision; }
std::string git_year() { return revision_year; }

}  // namespace macheps
