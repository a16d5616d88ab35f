// SPDX-License-Identifier: Apache-2.0
#include "reports/value_range.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "reports/verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace macheps {

namespace {

constexpr std::string_view scaled_word = "scaled";

std::optional<double> number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Describes the largest value in an unscaled narrow format.
std::string words_of(const FormatRange& range) {
    const std::string reached =
        fmt::format("largest forward value {} of {:g} ({})", two_digits(range.amax), range.largest, range.format);
    const double factor = pretrained_peak / random_peak;
    if (range.amax * factor < range.largest) return reached + "; an overflow would not have been seen";
    return fmt::format("{}; outliers as large as in a pretrained model, up to {} times these values, would overflow", reached,
                       two_digits(factor));
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
            const auto amax = number(part.substr(colon + 1, slash - colon - 1)), largest = number(part.substr(slash + 1));
            if (!amax || !largest) continue;
            range.amax = *amax, range.largest = *largest;
        } else {
            continue;
        }
        ranges.push_back(std::move(range));
    }
    return ranges;
}

std::string range_words(const SummaryRow& row) {
    if (row.sampled_steps.value_or(0) == 0) return "not measured: no site was sampled (--probe-every)";
    std::vector<std::string> parts, wide, scaled;
    bool is_measured = false;
    for (const FormatRange& range : read_ranges(row.forward_ranges.value_or(""))) {
        if (!range.is_narrow()) {
            wide.push_back(range.format);
        } else if (range.is_scaled) {
            scaled.push_back(range.format);
        } else if (row.forward_overflow_format.value_or("") != range.format) {
            parts.push_back(words_of(range));
            is_measured = true;
        }
    }
    if (const std::string format = row.forward_overflow_format.value_or(""); !format.empty()) {
        parts.insert(parts.begin(), fmt::format("forward values overflowed {} (largest {:g}), first in {} at step {}", format,
                                                largest_of(format).value_or(NAN), row.forward_overflow_site.value_or(""),
                                                row.forward_overflow_step.value_or(0)));
    }
    if (!scaled.empty()) {
        parts.push_back(fmt::format("{} {} scaled to fit {} range", fmt::join(scaled, " and "), scaled.size() == 1 ? "is" : "are",
                                    scaled.size() == 1 ? "its" : "their"));
    }
    if (parts.empty()) return wide.empty() ? "that of fp32" : fmt::format("that of fp32 ({})", fmt::join(wide, ", "));
    std::string words = fmt::format("{}", fmt::join(parts, "; "));
    if (is_measured && row.steps && *row.sampled_steps < *row.steps)
        words += fmt::format(" ({} of {} steps sampled)", *row.sampled_steps, *row.steps);
    return words;
}

std::string stressed_name(std::string_view policy, std::string_view stress) {
    return fmt::format("{}+{}", policy, stress.substr(0, stress.find('=')));
}

bool is_range_open(const SummaryRow& row) {
    if (!row.forward_overflow_format.value_or("").empty()) return true;
    const std::vector<FormatRange> ranges = read_ranges(row.forward_ranges.value_or(""));
    return std::any_of(ranges.begin(), ranges.end(),
                       [](const FormatRange& range) { return range.is_narrow() && !range.is_scaled; });
}

}  // namespace macheps
