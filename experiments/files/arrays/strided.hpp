// SPDX-License-Identifier: Apache-2.0
// Converts arrays whose elements are not in row-major order: column-major arrays, transposed arrays, and parts of
// larger arrays.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// Returns the size in bytes of an array with elements of `width` bytes. Returns nothing if a size of `shape` is
/// negative, or if the result would exceed 2^60 bytes. No file is that large.
std::optional<std::size_t> array_bytes(const std::vector<std::int64_t>& shape, std::size_t width);

/// Return the strides, in elements, of a row-major array (the last axis varies fastest) and of a column-major array
/// (the first axis varies fastest).
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);
std::vector<std::int64_t> column_major_strides(const std::vector<std::int64_t>& shape);

/// Returns the bytes of a strided array in row-major order. `offset` and `strides` count elements of `width` bytes. The
/// element at an index is at `offset` plus the sum of index times stride over all axes. Returns nothing if `shape` and
/// `strides` differ in length, if a stride is negative, if an element would be outside `data`, or if the array has more
/// elements than `data`. An array with more elements than `data` must repeat elements, and with strides of 0 it could
/// have any size. All checks are made before memory is allocated.
std::optional<std::string> in_rows(std::string_view data, std::size_t width, const std::vector<std::int64_t>& shape,
                                   const std::vector<std::int64_t>& strides, std::uint64_t offset = 0);

}  // namespace macheps::files
