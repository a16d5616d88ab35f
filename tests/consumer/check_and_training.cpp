// SPDX-License-Identifier: Apache-2.0
// A program that uses training and kernel checks. It shows that one file can include the headers of both, and that one
// program can link both libraries.
#include "check.hpp"

#include "experiments/check/checked.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/run/experiment.hpp"

using namespace macheps::training;

int main() {
    using namespace macheps;
    check::Declaration declaration{.operation = &check::find_operation("gemm")};
    check::declare(declaration, "a", "bf16/row");
    CONSUMER_CHECK(declaration.formats.contains("a"));
    ModelConfig model;
    validate(model);
    CONSUMER_CHECK(!model_sites(model).sites.empty());
    bool is_refused = false;
    try {
        validate(TrainOptions{.steps = -1});
    } catch (const Error& error) {
        is_refused = error.exit() == Exit::usage;
    }
    CONSUMER_CHECK(is_refused);
    return failures == 0 ? 0 : 1;
}
