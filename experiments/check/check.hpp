// SPDX-License-Identifier: Apache-2.0
// Is a kernel's output as accurate as its formats, its K and its order of summation allow, and would we have noticed if it
// were not? The door of this folder.
#pragma once
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/power/power.hpp"
#include "experiments/check/verdict.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <vector>

namespace macheps::check {

/// The problem that arrays pose under a declaration: `out` stands apart. Names are those of the operation's roles, and `a`
/// and `b` of a product. Errors: throws Error: usage for what the declaration lacks or cannot be, bad input for arrays
/// that are missing, empty, of other shapes than each other, or of another format than was declared.
struct Posed {
    Problem problem{};
    Numbers out{};
    std::vector<std::int64_t> out_shape{};
};
/// Of a product only the outputs of a sample are in it, where `sampling` says so, beside a screen of all.
Posed pose(const Declaration& declaration, const std::vector<files::StoredArray>& arrays, ThreadPool& pool,
           const Sampling& sampling = {});

/// Judges `out` and the check itself.
Verdict check(const Problem& problem, NumberView out, const Options& options, ThreadPool& pool);

std::vector<Metric> metrics(const Limits& limits, NumberView got, ThreadPool& pool);

}  // namespace macheps::check
