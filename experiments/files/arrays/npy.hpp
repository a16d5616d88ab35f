// SPDX-License-Identifier: Apache-2.0
// Arrays on disk: NumPy's .npy, and numbers as text.
#pragma once
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

inline constexpr std::string_view npy_magic{"\x93NUMPY", 6};

/// The bytes of an .npy file, format version 1.0, up to its first element; `type` is such as `<f4`.
std::string npy_header(std::string_view type, const std::vector<std::int64_t>& shape);

/// An .npy file of any version, in row-major order whatever the file's. `where` stands in errors. Its elements are
/// fp16, fp32, fp64, integers, or codes: |u1, <u2, and what ml_dtypes writes (|V1, <V2, <f1). Errors: throws Error (bad input).
StoredArray parse_npy(std::string_view bytes, std::string name, const std::string& where);

/// Writes little-endian fp32 in row-major order, format version 1.0. Errors: throws Error (cannot_write).
void write_npy(const std::string& path, std::span<const float> values, const std::vector<std::int64_t>& shape);

/// The numbers of a file in its order: an .npy file of fp16, fp32 or fp64, whatever its shape, or text with white space
/// or commas between numbers. Errors: throws Error that names the place.
std::vector<double> read_numbers(const std::string& path);

}  // namespace macheps::files
