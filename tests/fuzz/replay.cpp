// SPDX-License-Identifier: Apache-2.0
// Replaces libFuzzer: runs a target on every file of the given directories, and on the empty input.
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
            if (entry.is_regular_file()) files.push_back(entry.path());
        }
    }
    if (files.empty()) {
        std::fprintf(stderr, "usage: replay CORPUS_DIRECTORY...; none of these holds a file\n");
        return 2;
    }
    std::sort(files.begin(), files.end());
    LLVMFuzzerTestOneInput(nullptr, 0);
    for (const auto& file : files) {
        std::ifstream in(file, std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
        try {
            LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s: an exception escaped: %s\n", file.c_str(), error.what());
            return 1;
        }
    }
    std::printf("%zu inputs\n", files.size());
    return 0;
}
