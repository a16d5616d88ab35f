// SPDX-License-Identifier: Apache-2.0
// The difference of two texts as a patch, in the unified format that `patch` and `git apply` read.
#pragma once
#include <string>
#include <string_view>

namespace macheps {

/// Returns the patch that turns `before` into `after`, with three lines of context, or an empty text if both are equal.
/// `name` is the name of the file in both headers.
std::string unified_diff(std::string_view before, std::string_view after, std::string_view name);

}  // namespace macheps
