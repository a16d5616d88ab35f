// SPDX-License-Identifier: Apache-2.0
// An assertion for the consumer programs, which use no test framework.
#pragma once
#include <cstdio>

inline int failures = 0;

#define CONSUMER_CHECK(claim)                                     \
    do {                                                          \
        const bool holds = (claim);                               \
        std::printf("%s: %s\n", holds ? "ok" : "FAILED", #claim); \
        failures += holds ? 0 : 1;                                \
    } while (false)
