// SPDX-License-Identifier: Apache-2.0
// Canaries: entries behind an output, and rows beyond a group, that no kernel may touch. Inputs come with an `out` that already holds them.
#pragma once
#include "experiments/check/check.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <optional>

namespace macheps::check {

/// The code of canary `i`, a finite number of the format that differs from its neighbours'.
std::uint64_t canary_code(const Format& format, std::int64_t i);

/// Fills an array with canaries from its first element on.
std::string canary_bytes(const Format& format, std::size_t count);

/// Takes the last `rows` entries of the array's first axis away; the place among them of the first that is no canary any
/// more, or nothing. Errors: throws Error (bad input) where the array has no more than so many entries.
std::optional<std::int64_t> take_canaries(files::StoredArray& array, const Format& format, std::int64_t rows);

/// What pose() does of a declaration with canaries: the problem of the output before them, and whether they still stand.
Posed pose_before_canaries(const Declaration& declaration, std::vector<files::StoredArray> arrays, ThreadPool& pool,
                           const Sampling& sampling);

}  // namespace macheps::check
