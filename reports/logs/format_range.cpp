// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/format_range.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/float_chars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace macheps::reports {

namespace {

constexpr std::string_view scaled_word = "scaled";

std::optional<double> number(std::string_view text) {
    double value = 0;
    const auto [end, error] = number_from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

bool FormatRange::is_narrow() const { return std::ilogb(largest) < std::ilogb(std::numeric_limits<float>::max()); }

std::optional<double> largest_of(std::string_view format) {
    const NamedFormat* named = find_format(format);
    if (named == nullptr) return std::nullopt;
    return decode64(named->format, named->format.max_finite_code() << named->format.padding);
}

void add_range(std::vector<FormatRange>& ranges, const FormatRange& range) {
    const auto found = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const FormatRange& other) { return other.format == range.format; });
    if (found == ranges.end()) {
        ranges.push_back(range);
        return;
    }
    found->amax = std::max(found->amax, range.amax);
    found->is_scaled = found->is_scaled && range.is_scaled;
}

std::string ranges_text(const std::vector<FormatRange>& ranges) {
    std::string text;
    for (const FormatRange& range : ranges) {
        text += fmt::format("{}{}:", text.empty() ? "" : ";", range.format);
        text += range.is_scaled ? std::string(scaled_word) : fmt::format("{:.9g}/{:.9g}", range.amax, range.largest);
    }
    return text;
}

std::vector<FormatRange> read_ranges(std::string_view text) {
    std::vector<FormatRange> ranges;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(';'));
        text.remove_prefix(std::min(part.size() + 1, text.size()));
        const std::size_t colon = part.find(':'), slash = part.find('/');
        if (colon == std::string_view::npos) continue;
        FormatRange range{.format = std::string(part.substr(0, colon))};
        if (part.substr(colon + 1) == scaled_word) {
            range.is_scaled = true;
            range.largest = largest_of(range.format).value_or(0);
        } else if (slash != std::string_view::npos && slash > colon) {
            const auto amax = number(part.substr(colon + 1, slash - colon - 1)),
                       largest = number(part.substr(slash + 1));
            if (!amax || !largest) continue;
            range.amax = *amax, range.largest = *largest;
        } else {
            continue;
        }
        ranges.push_back(std::move(range));
    }
    return ranges;
}

}  // namespace macheps::reports
