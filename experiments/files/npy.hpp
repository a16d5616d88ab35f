// SPDX-License-Identifier: Apache-2.0
// Arrays on disk: NumPy's .npy, and numbers as text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace macheps {

/// Writes little-endian fp32 in row-major order, format version 1.0. Errors: throws Error (cannot_write).
void write_npy(const std::string& path, std::span<const float> values, const std::vector<std::int64_t>& shape);

/// The numbers of a file in its order: an .npy file of fp16, fp32 or fp64, whatever its shape, or text with white space
/// or commas between numbers. Errors: throws Error that names the place.
std::vector<double> read_numbers(const std::string& path);

}  // namespace macheps
