// SPDX-License-Identifier: Apache-2.0
// Matrix Market files (NIST, math.nist.gov/MatrixMarket/formats.html): square real matrices, made dense.
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

/// `array` and `coordinate`; real, integer or pattern (an entry is 1); general, symmetric or skew-symmetric. Entries of one
/// place add up. Errors: throws Error (bad input) that names the line: what is no such file, complex and Hermitian
/// matrices, matrices that are not square or have more than `most_rows` rows, too few or too many entries.
StoredMatrix read_matrix_market(const std::filesystem::path& path, std::int64_t most_rows);
/// The same of a file's text.
StoredMatrix parse_matrix_market(std::string_view text, std::string_view where, std::int64_t most_rows);

}  // namespace macheps::files
