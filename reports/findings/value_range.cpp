// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/value_range.hpp"

#include "reports/findings/verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace macheps::reports {

namespace {

/// Describes the largest forward value that was cast, without a scale, to a format with a narrower range than fp32.
std::string words_of(const FormatRange& range) {
    const std::string reached =
        fmt::format("largest forward value {} of {:g} ({})", two_digits(range.amax), range.largest, range.format);
    const double factor = pretrained_peak / random_peak;
    if (range.amax * factor < range.largest)
        return reached + "; this cannot rule out an overflow in a pretrained model";
    return fmt::format("{}; outliers as large as in a pretrained model, up to {} times these values, would overflow",
                       reached, two_digits(factor));
}

}  // namespace

std::string range_words(const SummaryRow& row) {
    if (row.sampled_steps.value_or(0) == 0) return "not measured, because no site was sampled (--probe-every)";
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
        parts.insert(parts.begin(),
                     fmt::format("forward values overflowed {} (largest {:g}), first in {} at step {}", format,
                                 largest_of(format).value_or(NAN), row.forward_overflow_site.value_or(""),
                                 row.forward_overflow_step.value_or(0)));
    }
    if (!scaled.empty()) {
        parts.push_back(fmt::format("casts to {} are scaled to fit {} range", fmt::join(scaled, " and "),
                                    scaled.size() == 1 ? "its" : "their"));
    }
    if (parts.empty())
        return wide.empty() ? "the same as fp32" : fmt::format("the same as fp32 ({})", fmt::join(wide, ", "));
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

}  // namespace macheps::reports
