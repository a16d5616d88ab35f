// SPDX-License-Identifier: Apache-2.0
// macheps sweep: a plan of many trainings, on one machine or on many.
#include "experiments/cmd/sweep/verbs.hpp"

namespace macheps::cmd::sweep {

namespace {

constexpr const char* help =
    "Trains a plan of many settings, policies and seeds, in shards that any scheduler may start.\n\n"
    "Examples:\n"
    "  macheps sweep plan formats.toml                    what the plan comes to\n"
    "  macheps sweep run formats.toml                     all of it, here, into the folder formats\n"
    "  macheps sweep run formats --shard 0/4              one shard of four; the others anywhere, at any time\n"
    "  macheps sweep status formats                       what is done, in hand, failed and missing\n\n"
    "A plan is a TOML file: [train] has options of `macheps train` by their long names, [axes] lists of them, with "
    "`policy`\n"
    "and `seeds`; their product is trained. All state is files in one folder; finished units are never trained again. "
    "Then\n"
    "`macheps merge formats` joins the rows and `macheps report formats` draws them. docs/sweeps.md has a plan for a "
    "laptop,\n"
    "for Slurm and for Kubernetes.";

constexpr const VerbRow* sweep_verbs[] = {&plan_verb, &run_verb, &status_verb, &submit_verb};

void describe(Command& verb) { verb.verbs(sweep_verbs); }

}  // namespace

const VerbRow verb{"sweep", help, describe};

}  // namespace macheps::cmd::sweep
