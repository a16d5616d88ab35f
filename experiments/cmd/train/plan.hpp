// SPDX-License-Identifier: Apache-2.0
// `macheps train --dry-run`: the plan, for people and for programs.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/training/run/plan.hpp"

namespace macheps::cmd::train {

/// Prints the plan on stdout and its problems, in the options of `verb`, on stderr. Returns what the experiment would
/// end with at once, if anything: Exit::ok, or that of the first problem.
Exit print_plan(const training::Plan& plan, const Command& verb, bool as_json);

}  // namespace macheps::cmd::train
