// SPDX-License-Identifier: Apache-2.0
// Memory layout of a library's matrices: codes in column-major order. A matrix that is stored by rows is passed as its
// transpose. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"

#include <cstddef>

namespace macheps::evidence {

std::size_t bytes_of(const Format& format);

/// Returns the codes of `values` [rows, columns], stored by rows or by columns. fp32 and tf32 are stored as fp32 words,
/// including their low bits.
std::vector<std::byte> packed_values(const std::vector<float>& values, const Format& format, std::int64_t rows,
                                     std::int64_t columns, bool by_rows);
/// Decodes codes that are stored by columns. Returns the numbers [rows, columns] in row-major order.
std::vector<float> unpacked_values(const std::vector<std::byte>& codes, const Format& format, std::int64_t rows,
                                   std::int64_t columns);

/// Returns the scales of an operand in the layout of cuBLAS ("FP8 data types with 128-element 1D and 128x128 2D block
/// scaling"). `scales` is [outer, blocks along k]. For one-dimensional blocks, the outer index varies fastest in the
/// result. For two-dimensional blocks, the index along k varies fastest, and the scales along k are padded to a
/// multiple of four. Scales that are not of blocks are returned unchanged.
std::vector<float> packed_scales(const std::vector<float>& scales, LibraryScaling scaling, std::int64_t k, bool is_2d);

}  // namespace macheps::evidence
