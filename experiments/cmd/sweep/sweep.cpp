// SPDX-License-Identifier: Apache-2.0
// macheps sweep: a plan of many trainings, on one machine or on many.
#include "experiments/cmd/sweep/verbs.hpp"

namespace macheps::cmd::sweep {

namespace {

constexpr const char* help =
    R"(Trains a plan of many settings, policies and seeds, in shards that any scheduler may start.

Examples:
  macheps sweep plan formats.toml            the size of the plan
  macheps sweep run formats.toml             trains all of it here, into the folder formats
  macheps sweep run formats --shard 0/4      one shard of four
  macheps sweep status formats               what is done, begun, failed and missing)";

constexpr const char* notes = R"(Plans:
  A plan is a TOML file. [train] contains options of `macheps train` by their long names. [axes]
  contains a list of values for each option to vary, and for `policy` and `seeds`. Every
  combination is trained. docs/sweeps.md has a plan for a laptop, for Slurm and for Kubernetes.

Results:
  Shards may run anywhere, at any time. All state is in files in one folder, and finished units
  are never trained again. Afterwards, `macheps merge formats` joins the rows, and `macheps report
  formats` draws charts.)";

constexpr const VerbRow* sweep_verbs[] = {&plan_verb, &run_verb, &status_verb, &submit_verb};

void describe(Command& verb) { verb.verbs(sweep_verbs); }

}  // namespace

const VerbRow verb{"sweep", help, describe, notes};

}  // namespace macheps::cmd::sweep
