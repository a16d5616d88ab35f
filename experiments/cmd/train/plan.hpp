// SPDX-License-Identifier: Apache-2.0
// `macheps train --dry-run`: the plan, for people and for programs.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/training/run/plan.hpp"

namespace macheps::cmd::train {

/// Prints the plan on stdout and its problems, with the names of the options of `verb`, on stderr. Returns the exit
/// code with which the experiment would end at once: that of the first problem, or Exit::ok.
Exit print_plan(const training::Plan& plan, const Command& verb, bool as_json);

}  // namespace macheps::cmd::train
