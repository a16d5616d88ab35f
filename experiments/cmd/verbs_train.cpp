// SPDX-License-Identifier: Apache-2.0
// The only verb of the program `macheps_train`: `train`. The program compiles in half the time of `macheps`, and its
// trainings give the same bits.
#include "experiments/cmd/command.hpp"

namespace macheps::cmd {

namespace {

constexpr const VerbRow* train_row[] = {&train::verb};

}  // namespace

constinit const std::span<const VerbRow* const> verbs = train_row;

}  // namespace macheps::cmd
