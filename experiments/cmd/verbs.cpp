// SPDX-License-Identifier: Apache-2.0
// The verbs of the program `macheps`, which has all of them.
#include "experiments/cmd/command.hpp"

namespace macheps::cmd {

namespace {

constexpr const VerbRow* all_rows[] = {
    &train::verb,  &show::verb,    &compute::verb, &formats::verb,    &convert::verb, &policies::verb, &scale::verb,
    &scaler::verb, &report::verb,  &causes::verb,  &why::verb,        &sweep::verb,   &merge::verb,    &gemm::verb,
    &solve::verb,  &sum::verb,     &eval::verb,    &checks::verb,     &machine::verb, &reveal::verb,   &testfloat::verb,
    &verify::verb, &version::verb, &help::verb,    &completion::verb, &man::verb,
};

}  // namespace

constinit const std::span<const VerbRow* const> verbs = all_rows;

}  // namespace macheps::cmd
