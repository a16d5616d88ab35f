// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/json.hpp"

#include "experiments/cmd/frame/print.hpp"

namespace macheps::cmd {

std::string json_text(const Json& json) { return json.dump(2, Json::BadUtf8::is_replaced) + "\n"; }

void print_json(const Json& json) { print_text(json_text(json)); }

}  // namespace macheps::cmd
