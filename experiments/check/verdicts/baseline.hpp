// SPDX-License-Identifier: Apache-2.0
// What checks said when somebody last agreed: a committed file, check.lock, with a row for each input. Other bits are
// worth a note, larger errors and less power are a failure.
#pragma once
#include "experiments/check/checked.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct BaselineRow {
    std::string name, input;          ///< of the check and its file
    std::string declaration, inputs;  ///< digests: a row holds for these alone
    std::string bits;                 ///< digest of the output
    double rho = 0, z = 0, rms = 0;   ///< rms of the errors in their modelled deviations
    double omega = 0;
    std::vector<std::string> blind{};
};

using Baseline = std::vector<BaselineRow>;

/// Reads a baseline. Errors: throws Error (bad input) with the place.
Baseline parse_baseline(std::string_view text, const std::string& file);
Baseline load_baseline(const std::filesystem::path& file);

/// The baseline that these checks make, sorted by name and input. What failed, or was not judged, keeps the row that
/// `old` has of it. Checks need their digests.
std::string baseline_text(std::span<const Checked> checks, const Baseline& old);

/// Compares with the rows: adds notes, and reasons KC060 and KC062 that make a check fail. Returns the rows that no check is of, each as
/// an input that fails: what was caught by it is caught no more.
std::vector<Checked> compare(std::span<Checked> checks, const Baseline& baseline);

}  // namespace macheps::check
