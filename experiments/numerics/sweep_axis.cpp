// SPDX-License-Identifier: Apache-2.0
#include "experiments/numerics/sweep_axis.hpp"

#include "core/format.hpp"
#include "experiments/field_error.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace macheps {

namespace {

FieldError bad(std::string_view text, std::string what) {
    return FieldError("sweep", std::move(what), "such as k=16..65536, scale=2^-20..1 or n=1,7,64", std::string(text));
}

double number(std::string_view word, std::string_view text) {
    const bool is_power = word.substr(0, 2) == "2^";
    const std::string_view digits = is_power ? word.substr(2) : word;
    double value = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || last != digits.data() + digits.size() || digits.empty() || !std::isfinite(value)) {
        throw bad(text, fmt::format("'{}' is no number", word));
    }
    if (!is_power) return value;
    if (value != std::floor(value) || std::fabs(value) > 120) throw bad(text, "2^N takes a whole N from -120 to 120");
    return Format::power_of_two(static_cast<int>(value));
}

}  // namespace

SweepAxis parse_sweep(std::string_view text) {
    constexpr std::size_t most = 1000;
    const std::size_t equals = text.find('=');
    SweepAxis axis{.name = std::string(text.substr(0, equals))};
    const bool is_size = axis.name == "m" || axis.name == "n" || axis.name == "k";
    if (equals == std::string_view::npos || !(is_size || axis.name == "scale")) {
        throw bad(text, "an axis is m, n, k or scale, then =");
    }
    std::string_view values = text.substr(equals + 1);
    if (const std::size_t dots = values.find(".."); dots != std::string_view::npos) {
        const double first = number(values.substr(0, dots), text), last = number(values.substr(dots + 2), text);
        if (!(first > 0) || last < first) throw bad(text, "a range goes from a number above 0 to a greater one");
        for (double x = first; x <= last && axis.values.size() < most; x *= 2) axis.values.push_back(x);
    } else {
        while (true) {
            const std::size_t comma = values.find(',');
            axis.values.push_back(number(values.substr(0, comma), text));
            if (comma == std::string_view::npos) break;
            values.remove_prefix(comma + 1);
        }
    }
    for (const double x : axis.values) {
        if (is_size && (x < 1 || x != std::floor(x) || x > 0x1p40)) {
            throw bad(text, fmt::format("{} takes whole numbers from 1 on", axis.name));
        }
    }
    return axis;
}

}  // namespace macheps
