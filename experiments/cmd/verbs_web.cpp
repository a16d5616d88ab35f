// SPDX-License-Identifier: Apache-2.0
// The verbs of the program for the browser (web/). It has no verbs that read arrays, start programs or need Arb.
#include "experiments/cmd/command.hpp"

namespace macheps::cmd {

namespace {

constexpr const VerbRow* web_rows[] = {
    &show::verb, &compute::verb, &formats::verb, &policies::verb, &scale::verb,   &scaler::verb, &why::verb,
    &gemm::verb, &sum::verb,     &machine::verb, &reveal::verb,   &version::verb, &help::verb,
};

}  // namespace

constinit const std::span<const VerbRow* const> verbs = web_rows;

}  // namespace macheps::cmd
