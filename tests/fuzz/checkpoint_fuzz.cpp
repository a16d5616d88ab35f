// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of checkpoints. Nearly every input has a wrong checksum. The reader checks the checksum first and
// refuses these inputs. Therefore this target corrects the checksum, unless the first byte is odd. The rest of the
// reader then also gets arbitrary bytes. An accepted checkpoint must not change if it is written and read again.
#include "core/error.hpp"
#include "experiments/training/run/checkpoint.hpp"
#include "reports/rows/checksum.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;
using namespace macheps::training;
using namespace macheps::reports;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::string bytes(fuzz::text(data + 1, size - 1));
    if (data[0] % 2 == 0 && bytes.size() >= 8) {
        const std::uint64_t sum = checksum_of(std::string_view(bytes).substr(0, bytes.size() - 8));
        std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
    }
    try {
        const Checkpoint checkpoint = parse_checkpoint(bytes, "fuzz.safetensors");
        const std::string written = to_bytes(checkpoint);
        fuzz::require(to_bytes(parse_checkpoint(written, "written.safetensors")) == written,
                      "a checkpoint does not change if it is written and read again");
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input,
                      std::string("a damaged file is a bad input file: ") + error.what());
    }
    return 0;
}
