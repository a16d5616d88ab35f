// SPDX-License-Identifier: Apache-2.0
// Implements `macheps train --stress`: trains policies again, on a model with outliers like those of a pretrained
// model.
#pragma once
#include "experiments/training/run/experiment.hpp"

#include <string>

namespace macheps::cmd::train {

/// The stress that `--config` applies if a policy computes in a format of narrow range.
inline constexpr const char* usual_stress = "outliers=2^11";

/// Returns the help text of the option, which lists the available stresses.
std::string stress_help();

/// Returns a copy of the policy in which the key of [stress] has this value. The name of the copy consists of the names
/// of the policy and of the key: amp-fp16+outliers. The copy is parsed from recorded sources, so that a manifest can
/// repeat it. Throws Error for a value that the key does not accept.
policy::Policy stressed(const policy::Policy& policy, const policy::TrainingKey& key, double value);

/// Adds a stressed copy of every policy to an experiment. `word` is NAME=VALUE, where NAME is a key of [stress], or
/// `none`. If `word` is empty, the copies are added only if there are configs and a policy casts forward values without
/// a scale to a format of narrow range (reports/findings/value_range.hpp). In this case, a note reports the copies.
/// Throws Error (usage) for other words.
void add_stressed(training::Experiment& experiment, const std::string& word, bool has_configs);

}  // namespace macheps::cmd::train
