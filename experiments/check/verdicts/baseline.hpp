// SPDX-License-Identifier: Apache-2.0
// Compares checks with a baseline: a committed file (check.lock) with the accepted result of each input. If the bits of
// an output changed, the check gets a note. If errors are larger than in the baseline, or if the check notices fewer
// wrong kernels, the check fails.
#pragma once
#include "experiments/check/checked.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

struct BaselineRow {
    std::string name, input;          ///< name of the check; path of its input file
    std::string declaration, inputs;  ///< digests; results are compared only if both are equal
    std::string bits;                 ///< digest of the output
    double rho = 0, z = 0, rms = 0;   ///< rms: root mean square of errors divided by their deviations
    double omega = 0;
    std::vector<std::string> blind{};
};

using Baseline = std::vector<BaselineRow>;

/// Parses a baseline. `file` is its name in errors. Errors: throws Error (bad input).
Baseline parse_baseline(std::string_view text, const std::string& file);
Baseline load_baseline(const std::filesystem::path& file);

/// Returns the text of a new baseline with the results of `checks`, sorted by name and input. An input that failed or
/// was not judged keeps its row from the previous baseline, `old`. Precondition: the checks have digests.
std::string baseline_text(std::span<const Checked> checks, const Baseline& old);

/// Compares checks with the baseline. Adds notes, and reasons with the code KC060, which make a check fail. For each
/// row of the baseline whose input is not in `checks`, returns a failed check with the code KC062, because faults that
/// this input caught are no longer caught.
std::vector<Checked> compare(std::span<Checked> checks, const Baseline& baseline);

}  // namespace macheps::check
