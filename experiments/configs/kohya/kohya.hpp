// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the importer of kohya's sd-scripts. keys.cpp lists the keys, and kohya.cpp sets the fields and
// creates the findings.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string_view>

namespace macheps::configs::kohya {

std::span<const KeyRow> keys();
/// Keys of the scripts and of the presets of the graphical interface that affect no numerical result.
std::string_view inert_keys();

}  // namespace macheps::configs::kohya
