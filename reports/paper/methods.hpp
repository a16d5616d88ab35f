// SPDX-License-Identifier: Apache-2.0
// Describes in LaTeX how the runs of a report were made, as a paragraph for the section "Methods" of a paper.
#pragma once
#include "reports/findings/divergence.hpp"

#include <string>

namespace macheps::reports {

/// Returns a paragraph about the model, the data, the training, the policies, the statistics and the program. All facts
/// come from the manifests and rows of the runs. Facts that a manifest lacks are left out. The program is cited as
/// \cite{macheps}.
/// Errors: throws Error, Exit::bad_input, if a directory has no manifest; throws a usage error if the model, data or
/// training options of two directories differ, because one paragraph cannot describe both.
std::string methods_text(const Log& log, const Summary& summary);

}  // namespace macheps::reports
