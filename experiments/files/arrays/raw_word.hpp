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
    std::optional<RawArray> raw{};  ///< empty if the file describes itself
};

/// Reads PATH or PATH:FORMAT[SIZES]. The format may be followed by /packed (two codes per byte) or /columns (the first
/// axis varies fastest), and the whole by @BYTES (the bytes before the first element). The array gets the name of the
/// file without its ending. A word of any other form is a path. Errors: throws Error (usage) for an unknown format, and
/// for sizes or an offset that are not whole numbers within 64 bits.
FileWord parse_file_word(const std::string& word);

/// Returns the arrays of the file, or the one that the word declares. Errors: as read_arrays() and read_raw().
std::vector<StoredArray> read_arrays(const FileWord& word, const Wanted& wanted = {});

}  // namespace macheps::files
