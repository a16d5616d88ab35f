// SPDX-License-Identifier: Apache-2.0
// Describes in LaTeX how the runs of a report were made, as a paragraph for the section "Methods" of a paper. Its words
// need no knowledge of macheps.
#pragma once
#include "reports/findings/divergence.hpp"
#include "reports/findings/sweep_summary.hpp"

#include <functional>
#include <string>

namespace macheps::reports {

/// Describes how a machine accumulates dot products: "as by the matrix instruction mma of sm_80". Its argument is an entry of
/// MethodFacts::Policy::machines. An empty text means that nothing is known.
using DescribeMachine = std::function<std::string(const std::string& machine)>;

/// Returns a paragraph about the model, the data, the training, the policies, the statistics and the program. All facts
/// come from the manifests and rows of the runs. Facts that a manifest lacks are left out. The program is cited as
/// \cite{macheps}.
/// Errors: throws Error, Exit::bad_input, if a directory has no manifest; throws a usage error if the model, data or
/// training options of two directories differ, because one paragraph cannot describe both.
std::string methods_text(const Log& log, const Summary& summary, const DescribeMachine& describe);

/// Returns the paragraph for a sweep. It also describes the grid. An option with several values is reported with all of
/// them.
std::string methods_text(const SweepSummary& sweep, const DescribeMachine& describe);

/// Returns the words for an axis of a sweep, such as "learning rate" for `lr`. Other axes keep their names.
std::string axis_words(const std::string& axis);

}  // namespace macheps::reports
