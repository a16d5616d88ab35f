// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/sweep_axis.hpp"

#include "core/field_error.hpp"
#include "core/format.hpp"
#include "core/text/float_chars.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace macheps::study {

namespace {

/// The text that the user typed, and an example of a valid text.
struct SweepText {
    std::string_view text, example;
};

FieldError bad(const SweepText& typed, std::string what) {
    return FieldError("sweep", std::move(what), std::string(typed.example), std::string(typed.text));
}

double number(std::string_view word, const SweepText& text) {
    const bool is_power = word.substr(0, 2) == "2^";
    const std::string_view digits = is_power ? word.substr(2) : word;
    double value = 0;
    const auto [last, error] = number_from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || last != digits.data() + digits.size() || digits.empty() || !std::isfinite(value)) {
        throw bad(text, fmt::format("'{}' is not a number", word));
    }
    if (!is_power) return value;
    if (value != std::floor(value) || std::fabs(value) > 120) throw bad(text, "2^N needs a whole N from -120 to 120");
    return Format::power_of_two(static_cast<int>(value));
}

}  // namespace

SweepAxis parse_sweep(std::string_view typed, std::span<const SweepRule> rules, std::string_view example) {
    constexpr std::size_t max_values = 1000;
    const SweepText text{typed, example};
    const std::size_t equals = typed.find('=');
    SweepAxis axis{.name = std::string(typed.substr(0, equals))};
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const SweepRule& row) { return row.name == axis.name; });
    if (equals == std::string_view::npos || rule == rules.end()) {
        std::vector<std::string_view> names;
        for (const SweepRule& row : rules) names.push_back(row.name);
        throw bad(text, fmt::format("a sweep must begin with one of {}, followed by =", fmt::join(names, ", ")));
    }
    std::string_view values = typed.substr(equals + 1);
    if (const std::size_t dots = values.find(".."); dots != std::string_view::npos) {
        const double first = number(values.substr(0, dots), text), last = number(values.substr(dots + 2), text);
        const bool adds = rule->step > 0;
        if (!(first > 0 || (adds && first == 0)) || last < first) {
            throw bad(text, adds ? "a range must start at 0 or above and must not descend"
                                 : "a range must start above 0 and must not descend");
        }
        for (double x = first; x <= last; x = adds ? x + rule->step : x * rule->factor) {
            if (axis.values.size() == max_values)
                throw bad(text, fmt::format("a range must have at most {} values", max_values));
            axis.values.push_back(x);
        }
    } else {
        while (true) {
            const std::size_t comma = values.find(',');
            axis.values.push_back(number(values.substr(0, comma), text));
            if (comma == std::string_view::npos) break;
            values.remove_prefix(comma + 1);
        }
    }
    for (const double x : axis.values) {
        if (rule->is_size && (x < 1 || x != std::floor(x) || x > 0x1p40)) {
            throw bad(text, fmt::format("{} must be a whole number from 1 to 2^40", axis.name));
        }
    }
    return axis;
}

SweepAxis parse_sweep(std::string_view text) {
    constexpr SweepRule rules[] = {{.name = "m", .is_size = true},
                                   {.name = "n", .is_size = true},
                                   {.name = "k", .is_size = true},
                                   {.name = "scale"}};
    return parse_sweep(text, rules, "use a sweep such as k=16..65536, scale=2^-20..1 or n=1,7,64");
}

}  // namespace macheps::study
