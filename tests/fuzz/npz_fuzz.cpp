// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of .npz archives. If the first byte is 'z', the remaining bytes are an archive. However, the
// checksums of an archive reject most changes that a fuzzer makes. Therefore, for any other first byte, this target
// makes an archive whose only member consists of the remaining bytes.
#include "experiments/files/arrays/zip.hpp"
#include "tests/fuzz/arrays.hpp"

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string rest(fuzz::text(data + 1, size - 1));
    fuzz::accept_or_refuse([&] {
        const std::string bytes = data[0] == 'z' ? rest : stored_zip({{"x.npy", rest}});
        // Deflate compresses at most 1032 bytes to one byte, which limits the size of a member.
        for (const ZipMember& member : read_zip(bytes, "fuzz.npz"))
            fuzz::require(member.bytes.size() <= 1032 * bytes.size() + 64,
                          "a member is no larger than deflate can make it");
        for (const StoredArray& array : parse_arrays(bytes, "fuzz", "fuzz.npz")) fuzz::check_array(array);
    });
    return 0;
}
