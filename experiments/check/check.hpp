// SPDX-License-Identifier: Apache-2.0
// Checks whether a kernel's output is as accurate as its formats, its K and its order of summation allow, and whether
// the check would have noticed an error. This is the public header of this folder.
#pragma once
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/power/power.hpp"
#include "experiments/check/verdict.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <vector>

namespace macheps::check {

/// The problem that a declaration and arrays define, and the kernel's output. `out` is not one of the problem's inputs.
struct Posed {
    Problem problem{};
    Numbers out{};
    std::vector<std::int64_t> out_shape{};
};
/// Builds the problem from a declaration and arrays. Each array has the name of one of the operation's roles; the
/// operands of a product are `a` and `b`. If `sampling` asks for a sample, the problem has only the sampled outputs of
/// a product. It then also has a screen of all outputs if the activation allows one.
/// Errors: throws Error: usage if the declaration is incomplete or impossible, bad input if arrays are missing or empty
/// or their shapes or formats do not fit.
Posed pose(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, ThreadPool& pool,
           const Sampling& sampling = {});

/// Judges `out`, and determines whether the check could have caught wrong kernels.
Verdict check(const Problem& problem, NumberView out, const Options& options, ThreadPool& pool);

std::vector<Metric> metrics(const Limits& limits, NumberView got, ThreadPool& pool);

}  // namespace macheps::check
