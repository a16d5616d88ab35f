// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of infix formulas. A formula is either read, or refused with an Error that names the position. A
// formula that was read is printed as an FPCore, which must read back as the same formula.
#include "core/error.hpp"
#include "experiments/study/eval/tree.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string core;
    try {
        core = study::fpcore_text(study::parse_infix(fuzz::text(data, size)));
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::usage, "a formula that cannot be read is a usage error");
        fuzz::require(!error.parts().where.empty(), "an error names the place");
        return 0;
    }
    try {
        const study::Cores again = study::parse_cores(core, "printed");
        fuzz::require(again.expressions.size() == 1 && study::fpcore_text(again.expressions.front()) == core,
                      "a printed formula reads back as itself");
    } catch (const Error&) {
        // Reading the printed formula may fail only if the FPCore nests too deeply for its reader. An FPCore can nest
        // more deeply than the infix text.
        fuzz::require(size > 200, "a printed formula reads back");
    }
    return 0;
}
