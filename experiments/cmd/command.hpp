// SPDX-License-Identifier: Apache-2.0
// The verbs of the program. A new verb is a file, its row here and a place in `verbs`; help, completion and the man page
// follow. A verb's action prints data on stdout and progress on stderr; its failures are thrown as Error.
#pragma once
#include "experiments/cmd/cli.hpp"

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

/// In the order of --help.
inline constexpr const VerbRow* verbs[] = {
    &train_verb,  &show_verb,    &formats_verb,   &convert_verb, &policy_verb,  &scale_verb,      &scaler_verb, &report_verb,
    &sweep_verb,  &merge_verb,   &gemm_verb,      &solve_verb,   &sum_verb,     &eval_verb,       &check_verb,  &machine_verb,
    &reveal_verb, &testfloat_verb, &verify_verb,  &version_verb, &help_verb,    &completion_verb, &man_verb,
};

}  // namespace macheps
