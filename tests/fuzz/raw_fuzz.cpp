// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of raw numbers without a header. The first line of the input is the command-line argument that
// describes the array. The remaining bytes are the content of the file.
#include "experiments/files/arrays/raw_word.hpp"
#include "tests/fuzz/arrays.hpp"

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view all = fuzz::text(data, size);
    const std::size_t end = all.find('\n');
    FileWord word;
    try {
        word = parse_file_word(std::string(all.substr(0, end)));
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::usage, "a bad argument is a usage error");
        return 0;
    }
    if (!word.raw || end == std::string_view::npos) return 0;
    fuzz::accept_or_refuse([&] {
        const StoredArray array = parse_raw(all.substr(end + 1), *word.raw, "fuzz.bin");
        fuzz::check_array(array);
        fuzz::require(array.bytes.size() <= size, "an array is not larger than the file");
    });
    return 0;
}
