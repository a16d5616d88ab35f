// SPDX-License-Identifier: Apache-2.0
// All verbs: those of the program `macheps`.
#include "experiments/cmd/command.hpp"

namespace macheps {

namespace {

constexpr const VerbRow* all_rows[] = {
    &train_verb,  &show_verb,    &formats_verb, &convert_verb,    &policy_verb, &scale_verb,
    &scaler_verb, &report_verb,  &sweep_verb,   &merge_verb,      &gemm_verb,   &solve_verb,
    &sum_verb,    &eval_verb,    &check_verb,   &machine_verb,    &reveal_verb, &testfloat_verb,
    &verify_verb, &version_verb, &help_verb,    &completion_verb, &man_verb,
};

}  // namespace

constinit const std::span<const VerbRow* const> verbs = all_rows;

}  // namespace macheps
