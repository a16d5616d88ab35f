// SPDX-License-Identifier: Apache-2.0
// The verbs of the program. A new verb is a file, its row here and a place in verbs.cpp; help, completion and the man page
// follow. A verb's action prints data on stdout and progress on stderr; its failures are thrown as Error.
#pragma once
#include "experiments/cmd/cli.hpp"

#include <span>

namespace macheps {

extern const VerbRow program;  ///< in main.cpp: its verbs are those below

extern const VerbRow check_verb;
extern const VerbRow completion_verb;
extern const VerbRow convert_verb;
extern const VerbRow eval_verb;
extern const VerbRow formats_verb;
extern const VerbRow gemm_verb;
extern const VerbRow help_verb;
extern const VerbRow machine_verb;
extern const VerbRow man_verb;
extern const VerbRow merge_verb;
extern const VerbRow policy_verb;
extern const VerbRow report_verb;
extern const VerbRow reveal_verb;
extern const VerbRow scale_verb;
extern const VerbRow scaler_verb;
extern const VerbRow show_verb;
extern const VerbRow solve_verb;
extern const VerbRow sum_verb;
extern const VerbRow sweep_verb;
extern const VerbRow testfloat_verb;
extern const VerbRow train_verb;
extern const VerbRow verify_verb;
extern const VerbRow version_verb;

/// The verbs of this program, in the order of --help. Each program's own file says them: verbs.cpp, and verbs_train.cpp for the
/// one that only trains.
extern const std::span<const VerbRow* const> verbs;

}  // namespace macheps
