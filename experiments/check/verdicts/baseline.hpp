// SPDX-License-Identifier: Apache-2.0
// Baselines: the accepted results of checks, in a committed file, check.lock, with a row for each input. Other bits
// give a note. Larger errors and less power are failures.
#pragma once
#include "experiments/check/checked.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct BaselineRow {
    std::string name, input;          ///< the check and its file
    std::string declaration, inputs;  ///< digests; the row holds only for these
    std::string bits;                 ///< digest of the output
    double rho = 0, z = 0, rms = 0;   ///< rms: of errors divided by their modelled deviations
    double omega = 0;
    std::vector<std::string> blind{};
};

using Baseline = std::vector<BaselineRow>;

/// Reads a baseline. Errors: throws Error (bad input) with the place.
Baseline parse_baseline(std::string_view text, const std::string& file);
Baseline load_baseline(const std::filesystem::path& file);

/// Returns the text of the baseline of these checks, sorted by name and input. A check that failed or was not judged
/// keeps its row of `old`. Precondition: the checks have their digests.
std::string baseline_text(std::span<const Checked> checks, const Baseline& old);

/// Compares checks with the baseline. Adds notes, and reasons KC060 that make a check fail. Returns an input that fails
/// (KC062) for each row without a check, because faults that this input caught are no longer caught.
std::vector<Checked> compare(std::span<Checked> checks, const Baseline& baseline);

}  // namespace macheps::check
