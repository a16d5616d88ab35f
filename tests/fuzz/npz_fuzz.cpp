// SPDX-License-Identifier: Apache-2.0
// .npz archives. Behind a first byte of 'z' the input is the archive. Checksums keep most of what a fuzzer changes from
// being read at all, so behind any other first byte it is the one member of an archive made here.
#include "experiments/files/arrays/zip.hpp"
#include "tests/fuzz/arrays.hpp"

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string rest(fuzz::text(data + 1, size - 1));
    fuzz::accept_or_refuse([&] {
        const std::string bytes = data[0] == 'z' ? rest : stored_zip({{"x.npy", rest}});
        // Deflate unpacks a thousandfold: what a small input may ask for is known.
        for (const ZipMember& member : read_zip(bytes, "fuzz.npz"))
            fuzz::require(member.bytes.size() <= 1032 * bytes.size() + 64,
                          "a member is no larger than deflate can make it");
        for (const StoredArray& array : parse_arrays(bytes, "fuzz", "fuzz.npz")) fuzz::check_array(array);
    });
    return 0;
}
