// SPDX-License-Identifier: Apache-2.0
// Version and revision of this build.
#pragma once
#include <string>

namespace macheps {

std::string version();
/// Returns the revision of the source tree at configure time, with `-dirty` if there were local changes, or "unknown"
/// outside a git checkout.
std::string git_revision();
/// Returns the year of the commit of git_revision(), or an empty text outside a git checkout.
std::string git_year();

}  // namespace macheps
