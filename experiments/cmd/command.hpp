// SPDX-License-Identifier: Apache-2.0
// The verbs of the program. To add a verb, write its file, declare its row here and name it in verbs.cpp. Help,
// completion and the man page follow from the row. A verb's action prints data on stdout and progress on stderr, and
// throws Error if it fails.
#pragma once
#include "experiments/cmd/frame/cli.hpp"

#include <span>

namespace macheps::cmd {

extern const VerbRow program;  ///< the program itself, whose verbs are declared below (main.cpp)

namespace causes {
extern const VerbRow verb;
}
namespace checks {
extern const VerbRow verb;
}
namespace completion {
extern const VerbRow verb;
}
namespace compute {
extern const VerbRow verb;
}
namespace convert {
extern const VerbRow verb;
}
namespace eval {
extern const VerbRow verb;
}
namespace formats {
extern const VerbRow verb;
}
namespace gemm {
extern const VerbRow verb;
}
namespace help {
extern const VerbRow verb;
}
namespace machine {
extern const VerbRow verb;
}
namespace man {
extern const VerbRow verb;
}
namespace merge {
extern const VerbRow verb;
}
namespace policies {
extern const VerbRow verb;
}
namespace report {
extern const VerbRow verb;
}
namespace reveal {
extern const VerbRow verb;
}
namespace scale {
extern const VerbRow verb;
}
namespace scaler {
extern const VerbRow verb;
}
namespace show {
extern const VerbRow verb;
}
namespace solve {
extern const VerbRow verb;
}
namespace sum {
extern const VerbRow verb;
}
namespace sweep {
extern const VerbRow verb;
}
namespace testfloat {
extern const VerbRow verb;
}
namespace train {
extern const VerbRow verb;
}
namespace verify {
extern const VerbRow verb;
}
namespace version {
extern const VerbRow verb;
}
namespace why {
extern const VerbRow verb;
}

/// The verbs of this program, in the order of --help. Each program defines its own list: `macheps` in verbs.cpp,
/// `macheps_train` in verbs_train.cpp.
extern const std::span<const VerbRow* const> verbs;

}  // namespace macheps::cmd
