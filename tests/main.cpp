// SPDX-License-Identifier: Apache-2.0
// Catch2 v2 wants its main compiled once; v3 brings one along (Catch2::Catch2WithMain).
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
