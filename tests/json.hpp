// SPDX-License-Identifier: Apache-2.0
// Includes nlohmann's JSON library for tests. json.cpp instantiates the templates of the library once. Otherwise they
// would cost a second of compile time in each file.
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
