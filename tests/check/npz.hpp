// SPDX-License-Identifier: Apache-2.0
// Writes arrays to .npy and .npz files in the way that NumPy does.
#pragma once
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/zip.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace macheps::test {

/// Returns the array as an .npy file of version 1.0.
inline std::string npy_text(const files::StoredArray& array) {
    std::string shape;
    for (const std::int64_t n : array.shape) shape += fmt::format("{}, ", n);
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", array.type, shape);
    header.resize(117, ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + array.bytes;
}

inline std::string npz_of(const std::vector<files::StoredArray>& arrays) {
    std::vector<files::ZipMember> members;
    for (const files::StoredArray& array : arrays) members.push_back({array.name + ".npy", npy_text(array)});
    return files::stored_zip(members);
}

inline void write_npz(const std::filesystem::path& path, const std::vector<files::StoredArray>& arrays) {
    std::ofstream(path, std::ios::binary) << npz_of(arrays);
}

}  // namespace macheps::test
