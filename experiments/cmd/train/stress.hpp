// SPDX-License-Identifier: Apache-2.0
// Implements `macheps train --stress`: trains policies again, on a model with outliers like those of a pretrained model.
#pragma once
#include "experiments/training/run/experiment.hpp"

#include <string>

namespace macheps::cmd::train {

/// The stress that `--config` applies if a policy computes in a format of narrow range.
inline constexpr const char* usual_stress = "outliers=2^11";

/// Returns the help text of the option, which lists the available stresses.
std::string stress_help();

/// The policy with a key of [stress], named after both: amp-fp16+outliers. It is parsed from recorded sources, so that a manifest
/// repeats it. Throws Error for a value that the key does not take.
policy::Policy stressed(const policy::Policy& policy, const policy::TrainingKey& key, double value);

/// Adds to the policies of an experiment the same ones stressed as `word` says: NAME=VALUE, a key of [stress]; or `none`. Where
/// `word` is empty, policies are stressed if they were made of configs and one of them casts forward values without a scale to a
/// format of narrow range (reports/findings/value_range.hpp); it is reported. Throws Error (usage) for other words.
void add_stressed(training::Experiment& experiment, const std::string& word, bool has_configs);

}  // namespace macheps::cmd::train
