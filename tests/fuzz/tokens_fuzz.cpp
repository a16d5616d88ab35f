// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of token files: text, llm.c and nanoGPT. The first byte chooses the format and the extension of
// the file name.
#include "core/error.hpp"
#include "experiments/training/run/data/data.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;
using namespace macheps::training;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto format = static_cast<DataFormat>(data[0] % 4);
    const std::string name = data[0] / 4 % 2 == 0 ? "fuzz.bin" : "fuzz.txt";
    // The file consists of all bytes after the first. The vector has exactly this size, so that a sanitizer detects a
    // read beyond the end of the file.
    const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1,
                                       reinterpret_cast<const std::byte*>(data) + size);
    try {
        const TokenStream stream = TokenStream::parse(bytes, name, format);
        fuzz::require(stream.size() > 0, "an empty stream is refused");
        const std::int64_t vocabulary = stream.vocabulary();
        stream.check(vocabulary);
        std::vector<std::int32_t> tokens;
        stream.append(0, stream.size(), tokens, vocabulary);
        fuzz::require(tokens.size() == stream.size(), "a stream has as many tokens as it reports");
        std::int32_t largest = 0;
        for (const std::int32_t token : tokens) {
            fuzz::require(token >= 0 && token < vocabulary, "tokens lie in the vocabulary");
            largest = token > largest ? token : largest;
        }
        fuzz::require(stream.format() == DataFormat::text || largest + 1 == vocabulary,
                      "the vocabulary is as small as possible");
        try {
            stream.check(largest);
            fuzz::require(false, "a token beyond the vocabulary is refused");
        } catch (const Error&) {
        }
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input, std::string("a bad file is a bad input file: ") + error.what());
    }
    return 0;
}
