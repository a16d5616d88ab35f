// SPDX-License-Identifier: Apache-2.0
// Reads Matrix Market files (NIST, math.nist.gov/MatrixMarket/formats.html) with square real matrices into dense
// arrays.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace macheps::files {

struct StoredMatrix {
    std::int64_t n = 0;
    std::vector<double> values{};  ///< n * n, row-major
};

/// Reads a matrix in the layout `array` or `coordinate`. Its type may be real, integer or pattern (each entry is 1).
/// Its symmetry may be general, symmetric or skew-symmetric. Several entries at the same position are added. Errors:
/// throws Error (bad input) with the line number if the file is not a Matrix Market file, if the matrix is complex,
/// Hermitian, not square or has more than `max_rows` rows, or if there are too few or too many entries.
StoredMatrix read_matrix_market(const std::filesystem::path& path, std::int64_t max_rows);
/// Does the same as read_matrix_market() with the text of a file.
StoredMatrix parse_matrix_market(std::string_view text, std::string_view where, std::int64_t max_rows);

}  // namespace macheps::files
