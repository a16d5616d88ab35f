// SPDX-License-Identifier: Apache-2.0
// The shared vectors of matrix units (JSON Lines): one line is one element of one instruction.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace macheps::machine_oracle {

/// One line, numbers as codes. `d` is a code unless `any_nan` or `any_zero` says that several are right.
struct Vector {
    std::string arch, instr, qual, cls, status, gpu;
    int row = 0;   ///< captures: row of the original file
    int line = 0;  ///< of the file, from 1
    std::vector<std::uint64_t> a, b, sa, sb;
    std::uint64_t c = 0, d = 0;
    bool any_nan = false, any_zero = false;
    std::map<std::string, std::uint64_t> alt;  ///< result under each other published behaviour
};

/// Returns all lines of a file. Throws std::runtime_error that names file and line.
[[nodiscard]] std::vector<Vector> read_vectors(const std::filesystem::path& file);

}  // namespace macheps::machine_oracle
