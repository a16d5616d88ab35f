// SPDX-License-Identifier: Apache-2.0
// Parses command-line arguments that name a file. For a file of raw numbers without a header, the argument also gives
// format and shape: `a.bin:bf16[192,1000]`, `dump.bin:fp32[64]@4096`.
#pragma once
#include "experiments/files/arrays/arrays.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps::files {

struct FileWord {
    std::filesystem::path path;
    std::optional<RawArray> raw{};  ///< empty if the file describes itself
};

/// Parses an argument of the form PATH or PATH:FORMAT[SIZES]. FORMAT may end with /packed (two codes per byte) or
/// /columns (the first axis varies fastest). The argument may end with @BYTES, the number of bytes before the first
/// element. The name of the array is the file name without its extension. An argument of any other form is taken as a
/// path. Errors: throws Error (usage) if the format is unknown, or if a size or the offset is not a whole number within
/// 64 bits.
FileWord parse_file_word(const std::string& word);

/// Returns the arrays of a file that describes itself, or the single array that the argument describes. Errors: the
/// same as those of read_arrays() and read_raw().
std::vector<StoredArray> read_arrays(const FileWord& word, const Wanted& wanted = {});

}  // namespace macheps::files
