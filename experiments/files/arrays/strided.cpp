// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/strided.hpp"

#include <algorithm>
#include <cstring>

namespace macheps::files {

std::optional<std::size_t> array_bytes(const std::vector<std::int64_t>& shape, std::size_t width) {
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    std::size_t bytes = width;
    bool is_empty = false;
    for (const std::int64_t size : shape) {
        if (size < 0) return {};
        is_empty = is_empty || size == 0;
        // A size of 0 counts as 1 here, so that the product of the other sizes is limited too. The functions below
        // multiply them to compute strides.
        if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(std::max<std::int64_t>(size, 1)), &bytes) ||
            bytes > most)
            return {};
    }
    return is_empty ? 0 : bytes;
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
    return strides;
}

std::vector<std::int64_t> column_major_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t axis = 1; axis < shape.size(); ++axis) strides[axis] = strides[axis - 1] * shape[axis - 1];
    return strides;
}

std::optional<std::string> in_rows(std::string_view data, std::size_t width, const std::vector<std::int64_t>& shape,
                                   const std::vector<std::int64_t>& strides, std::uint64_t offset) {
    const std::optional<std::size_t> bytes = array_bytes(shape, width);
    if (!bytes || strides.size() != shape.size() || *bytes > data.size()) return {};
    if (*bytes == 0) return std::string();
    std::uint64_t last = offset;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        std::uint64_t way = 0;
        if (strides[axis] < 0 ||
            __builtin_mul_overflow(static_cast<std::uint64_t>(strides[axis]),
                                   static_cast<std::uint64_t>(shape[axis] - 1), &way) ||
            __builtin_add_overflow(last, way, &last))
            return {};
    }
    if (last >= data.size() / width) return {};
    if (strides == row_major_strides(shape)) return std::string(data.substr(offset * width, *bytes));

    std::string out(*bytes, '\0');
    std::vector<std::int64_t> index(shape.size());
    std::uint64_t from = offset;
    for (std::size_t to = 0; to < out.size(); to += width) {
        std::memcpy(out.data() + to, data.data() + from * width, width);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            const auto stride = static_cast<std::uint64_t>(strides[axis]);
            from += stride;
            if (++index[axis] < shape[axis]) break;
            from -= stride * static_cast<std::uint64_t>(index[axis]);
            index[axis] = 0;
        }
    }
    return out;
}

}  // namespace macheps::files
