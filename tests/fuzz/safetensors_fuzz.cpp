// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of safetensors files. In an accepted file, every tensor lies within the file. The content does not
// change if it is written and read again.
#include "core/error.hpp"
#include "experiments/files/arrays/safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <vector>

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const Safetensors file = Safetensors::parse(bytes, "fuzz.safetensors");
        SafetensorsWriter writer;
        for (const auto& [key, value] : file.metadata()) writer.metadata(key, value);
        for (const StoredTensor& tensor : file.tensors()) {
            fuzz::require(tensor.bytes.empty() || (tensor.bytes.data() >= bytes.data() &&
                                                   tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + size),
                          "a tensor lies within the file");
            writer.borrow(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
        }
        std::vector<std::byte> written;
        writer.write(
            [&](std::span<const std::byte> piece) { written.insert(written.end(), piece.begin(), piece.end()); });
        const Safetensors again = Safetensors::parse(written, "written.safetensors");
        fuzz::require(again.metadata() == file.metadata(), "metadata survives");
        fuzz::require(again.tensors().size() == file.tensors().size(), "every tensor survives");
        for (const StoredTensor& tensor : file.tensors()) {
            const StoredTensor& copy = again.at(tensor.name);
            fuzz::require(
                copy.dtype == tensor.dtype && copy.shape == tensor.shape &&
                    std::equal(copy.bytes.begin(), copy.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()),
                "a tensor survives");
        }
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input,
                      std::string("a damaged file is a bad input file: ") + error.what());
    }
    return 0;
}
