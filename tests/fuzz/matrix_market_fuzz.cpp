// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of Matrix Market text. A text either gives a square matrix within the size limit, or an Error that
// names the place of the fault.
#include "core/error.hpp"
#include "experiments/files/arrays/matrix_market.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cstdlib>

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const StoredMatrix a = parse_matrix_market(fuzz::text(data, size), "fuzz", 64);
        if (a.n < 1 || a.n > 64 || a.values.size() != static_cast<std::size_t>(a.n * a.n)) std::abort();
    } catch (const Error& error) {
        if (error.exit() != Exit::bad_input || error.parts().where.empty()) std::abort();
    }
    return 0;
}
