// SPDX-License-Identifier: Apache-2.0
// The range of the values that were cast to a format, and its text in summary.csv.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// The forward values that were cast to one format.
struct FormatRange {
    std::string format{};
    double amax = 0;         ///< largest finite magnitude before the cast, over casts without a scale
    double largest = 0;      ///< largest finite number of the format
    bool is_scaled = false;  ///< every cast had a scale, which moves the values into the range

    bool operator==(const FormatRange&) const = default;
    /// Returns whether the largest number of the format has a smaller exponent than the largest number of fp32. Other
    /// formats,
    /// such as bf16, have the range of fp32.
    bool is_narrow() const;
};

/// Returns the largest finite number of the named format, or nothing for an unknown name.
std::optional<double> largest_of(std::string_view format);

/// Merges `range` into a list that has one range for each format, in order of first appearance.
void add_range(std::vector<FormatRange>& ranges, const FormatRange& range);

/// Formats ranges as a cell of summary.csv: "fp16:5.29/65504;e4m3fn:scaled".
std::string ranges_text(const std::vector<FormatRange>& ranges);
/// Parses the output of ranges_text(). Parts that do not have this form are ignored.
std::vector<FormatRange> read_ranges(std::string_view text);

}  // namespace macheps::reports
