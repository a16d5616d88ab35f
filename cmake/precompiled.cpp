// SPDX-License-Identifier: Apache-2.0
// This file is empty. It exists because a CMake target needs a source file (see macheps_precompiled.cmake).
