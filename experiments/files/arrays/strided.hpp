// SPDX-License-Identifier: Apache-2.0
// Arrays whose elements are not in row-major order: column-major, transposed, or a part of a larger array.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// Returns the bytes of an array with elements of `width` bytes. Returns nothing if a size is negative, or if there are
/// more than 2^60 bytes, which no file has.
std::optional<std::size_t> array_bytes(const std::vector<std::int64_t>& shape, std::size_t width);

/// Returns the strides, in elements, of an array whose last or first axis varies fastest.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);
std::vector<std::int64_t> column_major_strides(const std::vector<std::int64_t>& shape);

/// Returns the array's bytes in row-major order. The element at an index is at `offset` plus the sum of index times
/// stride, in elements of `width` bytes. Returns nothing if there are not as many strides as sizes, if an element would
/// be outside of `data`, if a stride is negative, or if the array has more elements than `data`. Such an array repeats
/// elements, and strides of 0 could make it any size. No memory is allocated before these checks.
std::optional<std::string> in_rows(std::string_view data, std::size_t width, const std::vector<std::int64_t>& shape,
                                   const std::vector<std::int64_t>& strides, std::uint64_t offset = 0);

}  // namespace macheps::files
