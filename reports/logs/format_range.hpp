// SPDX-License-Identifier: Apache-2.0
// The range of the values that were cast to a format, as a cell of summary.csv.
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
    /// Returns whether the largest number of the format has a smaller exponent than that of fp32. Other formats do not
    /// overflow earlier than fp32.
    bool is_narrow() const;
};

/// Returns the largest finite number of the named format, or nothing for an unknown name.
std::optional<double> largest_of(std::string_view format);

/// Merges a range with those of other runs or sites. Each format appears once, in order of first appearance.
void add_range(std::vector<FormatRange>& ranges, const FormatRange& range);

/// Formats ranges as a cell of summary.csv: "fp16:5.29/65504;e4m3fn:scaled".
std::string ranges_text(const std::vector<FormatRange>& ranges);
/// Parses the output of ranges_text(). Other parts are ignored.
std::vector<FormatRange> read_ranges(std::string_view text);

}  // namespace macheps::reports
