// SPDX-License-Identifier: Apache-2.0
// A file of bare numbers as a word of a command line: `a.bin:bf16[192,1000]`, `dump.bin:fp32[64]@4096`.
#pragma once
#include "experiments/files/arrays/arrays.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps::files {

struct FileWord {
    std::filesystem::path path;
    std::optional<RawArray> raw{};  ///< nothing: the file says of itself what it holds
};

/// PATH, or PATH:FORMAT[SIZES], with /packed (two codes a byte) or /columns (the first axis is the fastest) behind the
/// format and @BYTES (before the first element) at the end. The array has the file's name without its ending. A word that
/// does not end so is a path, whatever it holds. Errors: throws Error (usage) for an unknown format and sizes that 64 bits
/// do not hold.
FileWord parse_file_word(const std::string& word);

/// The arrays of the file, or the one that the word declares. Errors: as read_arrays() and read_raw().
std::vector<StoredArray> read_arrays(const FileWord& word, const Wanted& wanted = {});

}  // namespace macheps::files
