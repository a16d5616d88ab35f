// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/layout.hpp"

#include "core/codec.hpp"

#include <cstring>

namespace macheps::evidence {

std::size_t bytes_of(const Format& format) { return static_cast<std::size_t>(format.container_bits()) / 8; }

std::vector<std::byte> packed_values(const std::vector<float>& values, const Format& format, std::int64_t rows,
                                     std::int64_t columns, bool by_rows) {
    const std::size_t size = bytes_of(format);
    std::vector<std::byte> codes(values.size() * size);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
            const float value = values[static_cast<std::size_t>(i * columns + j)];
            const std::uint32_t code = size == 4 ? bit_cast<std::uint32_t>(value)
                                                 : encode(format, value, Round::nearest_even, Overflow::nonsaturate);
            const auto place = static_cast<std::size_t>(by_rows ? i * columns + j : j * rows + i);
            std::memcpy(&codes[place * size], &code, size);  // host and device are little-endian
        }
    }
    return codes;
}

std::vector<float> unpacked_values(const std::vector<std::byte>& codes, const Format& format, std::int64_t rows,
                                   std::int64_t columns) {
    const std::size_t size = bytes_of(format);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
            std::uint32_t code = 0;
            std::memcpy(&code, &codes[static_cast<std::size_t>(j * rows + i) * size], size);
            values[static_cast<std::size_t>(i * columns + j)] =
                size == 4 ? bit_cast<float>(code) : decode(format, code);
        }
    }
    return values;
}

std::vector<float> packed_scales(const std::vector<float>& scales, LibraryScaling scaling, std::int64_t k, bool is_2d) {
    if (scaling != LibraryScaling::blocks_1x1 && scaling != LibraryScaling::blocks_1x2) return scales;
    const std::int64_t blocks = blocks_of_128(k), column = (blocks + 3) / 4 * 4;
    const std::int64_t outer = static_cast<std::int64_t>(scales.size()) / blocks;
    std::vector<float> packed(static_cast<std::size_t>(is_2d ? column * outer : blocks * outer));
    for (std::int64_t i = 0; i < outer; ++i) {
        for (std::int64_t s = 0; s < blocks; ++s) {
            packed[static_cast<std::size_t>(is_2d ? i * column + s : s * outer + i)] =
                scales[static_cast<std::size_t>(i * blocks + s)];
        }
    }
    return packed;
}

}  // namespace macheps::evidence
