// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of .npy arrays. An accepted array has as many elements as its shape requires. It does not change if
// it is written and read again.
#include "core/error.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "tests/fuzz/arrays.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::accept_or_refuse([&] {
        const StoredArray array = parse_npy(fuzz::text(data, size), "x", "fuzz.npy");
        fuzz::check_array(array);
        const StoredArray again = parse_npy(npy_header(array.type, array.shape) + array.bytes, "x", "again.npy");
        fuzz::require(again.bytes == array.bytes && again.shape == array.shape,
                      "an array does not change if it is written and read again");
    });
    return 0;
}
