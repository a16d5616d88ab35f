// SPDX-License-Identifier: Apache-2.0
// Canaries are known values that no kernel may overwrite. make-inputs puts them into the array `out`: into the entries
// after the output, and into the unused rows of groups.
#pragma once
#include "experiments/check/check.hpp"
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <optional>

namespace macheps::check {

/// Returns the code of canary `i`. It is a finite number of the format and differs from canaries i - 1 and i + 1.
std::uint64_t canary_code(const Format& format, std::int64_t i);

/// Returns the bytes of an array of `count` canaries.
std::string canary_bytes(const Format& format, std::size_t count);

/// Removes the last `rows` entries of the array's first axis. Returns the index, among the removed elements, of the
/// first canary that was overwritten, or nothing. Errors: throws Error (bad input) if the array does not have more than
/// `rows` entries.
std::optional<std::int64_t> take_canaries(files::StoredArray& array, const Format& format, std::int64_t rows);

/// Builds the problem for a declaration with canaries. Removes the canaries from the output and records the first
/// canary that the kernel overwrote.
Posed pose_before_canaries(const Declaration& declaration, std::vector<files::StoredArray> arrays, ThreadPool& pool,
                           const Sampling& sampling);

}  // namespace macheps::check
