// SPDX-License-Identifier: Apache-2.0
// How far the forward values of a policy reached into the range of each format, and what this implies about overflows.
#pragma once
#include "reports/event.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// The ratio of the largest input of `mlp.down` to its rms, measured in SmolLM2-135M and with random weights. Their quotient is
/// how much further a pretrained model may reach than the small model that a run initialises.
inline constexpr double pretrained_peak = 653, random_peak = 8.9;

/// The forward values that were cast to one format.
struct FormatRange {
    std::string format{};
    double amax = 0;         ///< largest finite magnitude before the cast; of casts without a scale
    double largest = 0;      ///< largest finite number of the format
    bool is_scaled = false;  ///< every cast had a scale, which moves the values into the range

    bool operator==(const FormatRange&) const = default;
    /// Returns whether the format ends at a smaller power of two than fp32. Other formats do not overflow earlier than fp32.
    bool is_narrow() const;
};

/// Returns the largest finite number of the named format, or nothing for an unknown name.
std::optional<double> largest_of(std::string_view format);

/// Merges a range with those of other runs or sites. Each format appears once, in order of first appearance.
void add_range(std::vector<FormatRange>& ranges, const FormatRange& range);

/// "fp16:5.29/65504;e4m3fn:scaled", as a cell of summary.csv.
std::string ranges_text(const std::vector<FormatRange>& ranges);
/// Parses the output of ranges_text(). Other parts are ignored.
std::vector<FormatRange> read_ranges(std::string_view text);

/// The range line of a verdict, without `range: `: "largest forward value 31 of 65504 (fp16); an overflow would not have been
/// seen (12 of 300 steps sampled)". Made of the columns `forward_*`, `sampled_steps` and `steps`.
std::string range_words(const SummaryRow& row);

/// Returns true if the runs cannot rule out an overflow that fp32 would not have: some forward values were cast, without a scale, to a
/// narrow format.
bool is_range_open(const SummaryRow& row);

/// The name of a policy whose runs were stressed: "amp-fp16+outliers" for a stress of "outliers=2^11".
std::string stressed_name(std::string_view policy, std::string_view stress);

}  // namespace macheps
