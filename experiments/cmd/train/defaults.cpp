// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/train/defaults.hpp"

#include "core/error.hpp"
#include "core/format.hpp"
#include "core/text/float_chars.hpp"

#include <fmt/format.h>

#include <charconv>

namespace macheps::cmd::train {

std::vector<std::string> demo_policies() {
    return {"fp32", "tf32", "amp-bf16", "pure-bf16", "pure-bf16-sr", "amp-fp16", "fp16-noscale", "fp8-tensorwise"};
}

double parse_weight(const std::string& text, const char* where) {
    const bool is_power = text.starts_with("2^");
    const char *first = text.data() + (is_power ? 2 : 0), *last = text.data() + text.size();
    double value = 0;
    const auto [end, error] = number_from_chars(first, last, value);
    if (error != std::errc{} || end != last ||
        (is_power && (value < -1000 || value > 1000 || value != static_cast<int>(value)))) {
        throw Error({.what = fmt::format("'{}' is not a valid number", text),
                     .where = where,
                     .fix = "pass a power of two such as 2^-12 or 0.5",
                     .exit = Exit::usage});
    }
    return is_power ? Format::power_of_two(static_cast<int>(value)) : value;
}

}  // namespace macheps::cmd::train
