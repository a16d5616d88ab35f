// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/json.hpp"

#include "core/print.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace macheps {

nlohmann::ordered_json json_number(double x) {
    if (std::isfinite(x)) return x;
    return decimal(x);
}

nlohmann::ordered_json json_number(float x) {
    if (std::isfinite(x)) return std::stod(fmt::format("{}", x));
    return decimal(x);
}

std::string json_text(const nlohmann::ordered_json& json) {
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::ordered_json& json) {
    const std::string text = json_text(json);
    std::fwrite(text.data(), 1, text.size(), stdout);
}

nlohmann::ordered_json parsed_json(const std::string& text) { return nlohmann::ordered_json::parse(text); }

}  // namespace macheps
