// SPDX-License-Identifier: Apache-2.0
// Elements that lie in another order than row-major: columns first, transposed, or a part of a larger array.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// Bytes of an array of elements of `width` bytes; nothing where a size is negative or the number is beyond 2^60, which
/// no file holds.
std::optional<std::size_t> array_bytes(const std::vector<std::int64_t>& shape, std::size_t width);

/// Strides, in elements, of an array whose last or first axis is the fastest.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);
std::vector<std::int64_t> column_major_strides(const std::vector<std::int64_t>& shape);

/// The array's bytes in row-major order. Its element at an index stands at `offset` + the sum of index times stride, in
/// elements of `width` bytes. Nothing where sizes and strides are not equally many, where an element would lie outside of
/// `data`, a stride is negative, or the array has more elements than `data` (it repeats some: strides of 0 may make it any
/// size at all). No memory is asked for before that is known.
std::optional<std::string> in_rows(std::string_view data, std::size_t width, const std::vector<std::int64_t>& shape,
                                   const std::vector<std::int64_t>& strides, std::uint64_t offset = 0);

}  // namespace macheps::files
