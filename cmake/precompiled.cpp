// SPDX-License-Identifier: Apache-2.0
// An empty source file, because a target needs one (see macheps_precompiled.cmake).
