// SPDX-License-Identifier: Apache-2.0
// macheps sweep: a plan of many trainings, on one machine or on many.
#include "experiments/cmd/sweep/verbs.hpp"

namespace macheps::cmd::sweep {

namespace {

constexpr const char* help =
    "Trains a plan of many settings, policies and seeds, in shards that any scheduler may start.\n\n"
    "Examples:\n"
    "  macheps sweep plan formats.toml                    the size of the plan\n"
    "  macheps sweep run formats.toml                     trains all of it here, into the folder formats\n"
    "  macheps sweep run formats --shard 0/4              one shard of four; the others may run anywhere, at any time\n"
    "  macheps sweep status formats                       what is done, begun, failed and missing\n\n"
    "A plan is a TOML file. [train] contains options of `macheps train` by their long names. [axes] contains a list\n"
    "of values for each option to vary, and for `policy` and `seeds`. Every combination is trained. All state is in\n"
    "files in one folder, and finished units are never trained again. Then `macheps merge formats` joins the rows,\n"
    "and `macheps report formats` draws charts. docs/sweeps.md has a plan for a laptop, for Slurm and for\n"
    "Kubernetes.";

constexpr const VerbRow* sweep_verbs[] = {&plan_verb, &run_verb, &status_verb, &submit_verb};

void describe(Command& verb) { verb.verbs(sweep_verbs); }

}  // namespace

const VerbRow verb{"sweep", help, describe};

}  // namespace macheps::cmd::sweep
