// SPDX-License-Identifier: Apache-2.0
// JSON on stdout: one document per call, floating numbers in the shortest decimals that read back the same.
#pragma once
#include "core/print.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <string>

namespace macheps {

/// JSON has no infinities and no NaN: those are strings.
inline nlohmann::ordered_json json_number(double x) {
    if (std::isfinite(x)) return x;
    return decimal(x);
}
/// The shortest decimal of the float, not of the double that it converts to.
inline nlohmann::ordered_json json_number(float x) {
    if (std::isfinite(x)) return std::stod(fmt::format("{}", x));
    return decimal(x);
}

/// Names may come from files: bytes that are no UTF-8 are replaced.
inline void print_json(const nlohmann::ordered_json& json) {
    const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace macheps
