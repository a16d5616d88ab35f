// SPDX-License-Identifier: Apache-2.0
// Reads the shared test vectors of matrix units (JSON Lines). Each line describes one element of the result of one
// instruction.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace macheps::machine_oracle {

/// One line of a file of vectors. All numbers are codes. If `any_nan` is set, every NaN is a right result. If
/// `any_zero` is set, every zero is. In both cases `d` is not used.
struct Vector {
    std::string arch, instr, qual, cls, status, gpu;
    int row = 0;   ///< row in the original file of a capture
    int line = 0;  ///< number of the line, from 1
    std::vector<std::uint64_t> a, b, sa, sb;
    std::uint64_t c = 0, d = 0;
    bool any_nan = false, any_zero = false;
    std::map<std::string, std::uint64_t> alt;  ///< results of other published models, by name
};

/// Returns all lines of a file. Throws std::runtime_error that names file and line.
[[nodiscard]] std::vector<Vector> read_vectors(const std::filesystem::path& file);

}  // namespace macheps::machine_oracle
