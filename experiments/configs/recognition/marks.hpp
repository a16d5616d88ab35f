// SPDX-License-Identifier: Apache-2.0
// Marks: conditions that only configs of one framework fulfil. A text of marks is a list separated by spaces. A mark is
// one condition, or several joined by `+`, all of which must hold. Conditions:
//   trainer.precision    the config has this key; a part `*` of the path matches any key
//   precision=16*|bf16*  the value of the key, or an element of it, is one of these; `*` at the end matches any rest
//   @trl*                the command runs a program of this name, or the Python file imports a module of this name
//   #command             the form of the file: json, yaml, toml, python, arguments, command, or program (a Python file
//                        that contains more than assignments)
//   !stage               the condition after the `!` does not hold
#pragma once
#include "experiments/files/config/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// Returns each mark that the config has, as words for an error: "model_name_or_path, dataset_name".
std::vector<std::string> marks_of(std::string_view marks, const files::ConfigFile& config);

}  // namespace macheps::configs
