// SPDX-License-Identifier: Apache-2.0
// `macheps train --dry-run`: the plan, for people and for programs.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/training/run/plan.hpp"

namespace macheps::cmd::train {

/// Prints the plan on stdout. Prints its problems on stderr, with the names of the options of `verb`. Returns the exit
/// code of the first problem, or Exit::ok if the plan has none. An experiment with a problem would end at once with
/// this exit code.
Exit print_plan(const training::Plan& plan, const Command& verb, bool as_json);

}  // namespace macheps::cmd::train
