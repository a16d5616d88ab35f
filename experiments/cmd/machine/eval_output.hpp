// SPDX-License-Identifier: Apache-2.0
// The output of `macheps machine eval`.
#pragma once
#include "experiments/study/machine/eval.hpp"

#include <string>

namespace macheps::cmd::machine {

/// Returns mismatches in full, disputed lines, and a table of counts per instruction. `path` is the file's name.
std::string machine_eval_text(const study::MachineEvaluation& evaluation, const std::string& path);

/// Prints the evaluation as one JSON document on stdout.
void print_machine_eval_json(const study::MachineEvaluation& evaluation, const std::string& path);

}  // namespace macheps::cmd::machine
