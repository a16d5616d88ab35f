// SPDX-License-Identifier: Apache-2.0
// The text of `macheps VERB --help`.
#pragma once
#include "experiments/cmd/frame/verb_tree.hpp"

#include <string>

namespace macheps::cmd {

/// Returns the help of a verb: its purpose and examples, how it is called, its options by group, its verbs, and its
/// notes. Lines are at most 100 columns long, except lines of the verb's own texts.
std::string help_text(const VerbEntry& verb);

}  // namespace macheps::cmd
