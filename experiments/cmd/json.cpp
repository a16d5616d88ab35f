// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/json.hpp"

#include "core/print.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace macheps {

Json json_number(float x) {
    if (std::isfinite(x)) return std::stod(fmt::format("{}", x));
    return decimal(x);
}

std::string json_text(const Json& json) { return json.dump(2, Json::BadUtf8::is_replaced) + "\n"; }

void print_json(const Json& json) {
    const std::string text = json_text(json);
    std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace macheps
