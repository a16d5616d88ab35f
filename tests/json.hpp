// SPDX-License-Identifier: Apache-2.0
// nlohmann's JSON for tests. json.cpp holds what the compiler would otherwise make of it in every file, a second each time.
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace macheps::test {

using JsonText = decltype(nlohmann::detail::input_adapter(std::declval<const std::string&>()));

}  // namespace macheps::test

extern template class nlohmann::basic_json<>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::lexer<nlohmann::json, macheps::test::JsonText>;
extern template class nlohmann::detail::parser<nlohmann::json, macheps::test::JsonText>;
