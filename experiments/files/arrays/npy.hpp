// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy's .npy files. Also reads numbers from text files.
#pragma once
#include "experiments/files/arrays/arrays.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

inline constexpr std::string_view npy_magic{"\x93NUMPY", 6};

/// Returns the header of an .npy file (format version 1.0): all bytes before the first element. `type` is NumPy's name
/// of the element type, such as `<f4`.
std::string npy_header(std::string_view type, const std::vector<std::int64_t>& shape);

/// Reads an .npy file of any version. Returns the array in row-major order, whatever the order in the file. `where`
/// names the file in errors. Elements may be fp16, fp32, fp64, integers, or codes of other formats. Codes have the type
/// |u1, <u2, or a type that ml_dtypes writes (|V1, <V2, <f1). Errors: throws Error (bad input).
StoredArray parse_npy(std::string_view bytes, std::string name, const std::string& where);

/// Writes an .npy file, format version 1.0, with little-endian fp32 elements in row-major order. Errors: throws Error
/// (cannot_write).
void write_npy(const std::string& path, std::span<const float> values, const std::vector<std::int64_t>& shape);

/// Returns the numbers of a file in their order. The file may be an .npy file of fp16, fp32 or fp64 with any shape, or
/// text with white space or commas between numbers. Errors: throws Error that names the file and, in a text, the
/// invalid number.
std::vector<double> read_numbers(const std::string& path);

}  // namespace macheps::files
