// SPDX-License-Identifier: Apache-2.0
// A target needs a file: see macheps_precompiled.cmake.
