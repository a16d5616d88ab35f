// SPDX-License-Identifier: Apache-2.0
// Canaries: entries after an output, and rows beyond the end of a group, that no kernel may write. Files of make-inputs
// have an `out` that already holds them.
#pragma once
#include "experiments/check/check.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <optional>

namespace macheps::check {

/// Returns the code of canary `i`, a finite number of the format that differs from its neighbours.
std::uint64_t canary_code(const Format& format, std::int64_t i);

/// Returns the bytes of an array of `count` canaries.
std::string canary_bytes(const Format& format, std::size_t count);

/// Removes the last `rows` entries of the array's first axis. Returns the index, among the removed elements, of the
/// first canary that was overwritten, or nothing. Errors: throws Error (bad input) if the array does not have more than
/// `rows` entries.
std::optional<std::int64_t> take_canaries(files::StoredArray& array, const Format& format, std::int64_t rows);

/// Poses a declaration with canaries: returns the problem of the output without them, and records which canary was
/// overwritten first.
Posed pose_before_canaries(const Declaration& declaration, std::vector<files::StoredArray> arrays, ThreadPool& pool,
                           const Sampling& sampling);

}  // namespace macheps::check
