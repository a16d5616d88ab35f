// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/json.hpp"

#include "experiments/cmd/print.hpp"

#include "core/print.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps {

Json json_number(float x) {
    if (std::isfinite(x)) return std::stod(fmt::format("{}", x));
    return decimal(x);
}

std::string json_text(const Json& json) { return json.dump(2, Json::BadUtf8::is_replaced) + "\n"; }

void print_json(const Json& json) {
    print_text(json_text(json));
}

}  // namespace macheps
