// SPDX-License-Identifier: Apache-2.0
// Compiles the main function of Catch2 v2 once. Catch2 v3 has a library with a main function (Catch2::Catch2WithMain).
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
