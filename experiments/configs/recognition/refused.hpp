// SPDX-License-Identifier: Apache-2.0
// Frameworks and programs whose configs are recognised, but not read.
#pragma once
#include <span>
#include <string_view>

namespace macheps::configs {

struct RefusedFramework {
    std::string_view name;      ///< "maxtext"
    std::string_view title;     ///< "MaxText"
    std::string_view marks;     ///< see marks.hpp; a config with one of them is refused
    std::string_view remedy{};  ///< what to do instead; empty: name a framework that is read
};

/// If a config has marks of several rows, the first of these rows applies.
std::span<const RefusedFramework> refused_frameworks();

}  // namespace macheps::configs
