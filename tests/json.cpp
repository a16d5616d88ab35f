// SPDX-License-Identifier: Apache-2.0
#include "tests/json.hpp"

template class nlohmann::basic_json<>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::lexer<nlohmann::json, macheps::test::JsonText>;
template class nlohmann::detail::parser<nlohmann::json, macheps::test::JsonText>;
