// SPDX-License-Identifier: Apache-2.0
// What this build is.
#pragma once
#include <string>

namespace macheps {

std::string version();
/// The revision of the source tree at configure time, `-dirty` with local changes; "unknown" outside a git checkout.
std::string git_revision();

}  // namespace macheps
