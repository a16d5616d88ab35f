// SPDX-License-Identifier: Apache-2.0
#include "core/host/version.hpp"

namespace macheps {

extern const char revision[96];  // revision.cpp.in

std::string version() { return MACHEPS_VERSION; }
std::string git_revision() { return revision; }

}  // namespace macheps
