// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of FPCore files. A file is either read into formulas that can be printed, or refused with an Error
// that names the position in the file.
#include "core/error.hpp"
#include "experiments/study/eval/tree.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;

namespace {

void read_cores(const std::string& text, bool keeps_precision) {
    study::Cores cores;
    try {
        cores = study::parse_cores(text, "fuzz.fpcore", keeps_precision);
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input, "a file that cannot be read is bad input");
        fuzz::require(error.parts().where.starts_with("fuzz.fpcore:"), "an error names the place");
        return;
    }
    for (const study::Expression& each : cores.expressions) {
        fuzz::require(each.slots >= static_cast<int>(each.inputs.size()), "every input has a slot");
        fuzz::require(!study::fpcore_text(each).empty(), "an FPCore can be printed");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(fuzz::text(data, size));
    read_cores(text, false);
    read_cores(text, true);
    return 0;
}
