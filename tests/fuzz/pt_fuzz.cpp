// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of .pt files. If the first byte is 'z', the remaining bytes are an archive. However, the checksums
// of an archive reject most changes that a fuzzer makes. Therefore, for any other first byte, this target makes an
// archive with two storages, whose pickle consists of the remaining bytes.
#include "experiments/files/arrays/zip.hpp"
#include "tests/fuzz/arrays.hpp"

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string rest(fuzz::text(data + 1, size - 1));
    fuzz::accept_or_refuse([&] {
        std::string bytes = rest;
        if (data[0] != 'z') {
            bytes = stored_zip({{"archive/data.pkl", rest},
                                {"archive/byteorder", "little"},
                                {"archive/data/0", std::string(64, 'x')},
                                {"archive/data/1", std::string(24, 'y')}});
        }
        std::size_t total = 0;
        for (const StoredArray& array : parse_arrays(bytes, "fuzz", "fuzz.pt")) {
            fuzz::check_array(array);
            total += array.bytes.size();
        }
        fuzz::require(total <= 16 * 1032 * (bytes.size() + 64), "the size of the file limits the size of the arrays");
    });
    return 0;
}
