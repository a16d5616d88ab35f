// SPDX-License-Identifier: Apache-2.0
// The settings in the advice of a finding.
#pragma once
#include "experiments/configs/finding.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// A key and its value, as the override KEY=VALUE.
struct Setting {
    std::string path, value;

    std::string text() const { return path + "=" + value; }
};

/// Returns the settings that an advice begins with (`bf16: true`, `"stage": 1 with "x": 2`, `--hysteresis 2`), or nothing
/// if it begins with something else. Words that follow, such as ", to keep fp32", and alternatives are left out. With
/// `has_options`, a setting may also be an option of a program.
std::vector<Setting> settings_in(std::string_view advice, bool has_options);

/// Returns the settings of a finding's advice. Their paths begin at the root of the config: a key that the advice names
/// is one of the keys of the finding, or a neighbour of the first of them.
std::vector<Setting> settings_of(const Finding& finding);

}  // namespace macheps::configs
