// SPDX-License-Identifier: Apache-2.0
// A library's matrices in memory: codes, column-major, so that what is stored by rows is a transpose. Host only.
#pragma once
#include "emulation/evidence/library/matmul.hpp"

#include <cstddef>

namespace macheps::evidence {

std::size_t bytes_of(const Format& format);

/// Codes of `values` [rows, columns], one row after the other, or one column after the other. fp32 and tf32 are fp32
/// words, whose low bits travel too.
std::vector<std::byte> packed_values(const std::vector<float>& values, const Format& format, std::int64_t rows,
                                     std::int64_t columns, bool by_rows);
/// Numbers [rows, columns], row-major, of codes that are stored one column after the other.
std::vector<float> unpacked_values(const std::vector<std::byte>& codes, const Format& format, std::int64_t rows,
                                   std::int64_t columns);

/// Scales of blocks, given [outer, blocks], as cuBLAS wants them ("FP8 data types with 128-element 1D and 128x128 2D
/// block scaling"): one-dimensional ones with the outer index running first, two-dimensional ones with the block along
/// k running first, in columns of a multiple of four. Other scales stay as they are.
std::vector<float> packed_scales(const std::vector<float>& scales, LibraryScaling scaling, std::int64_t k, bool is_2d);

}  // namespace macheps::evidence
