// SPDX-License-Identifier: Apache-2.0
// What `macheps machine eval` prints.
#pragma once
#include "experiments/study/machine/eval.hpp"

#include <string>

namespace macheps::cmd::machine {

/// Mismatches in full, disputed lines, and a table of counts per instruction. `path` is the file's name.
std::string machine_eval_text(const study::MachineEvaluation& evaluation, const std::string& path);

/// The same as one JSON document on stdout.
void print_machine_eval_json(const study::MachineEvaluation& evaluation, const std::string& path);

}  // namespace macheps::cmd::machine
