// SPDX-License-Identifier: Apache-2.0
// Catch2 v2 needs its main to be compiled once. Catch2 v3 has a library with main (Catch2::Catch2WithMain).
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
