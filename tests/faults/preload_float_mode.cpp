// SPDX-License-Identifier: Apache-2.0
// A library that is preloaded into the program. Its constructor sets the floating-point mode that MACHEPS_FLOAT_MODE
// names and leaves it set, as the constructor of a library built with -ffast-math would.
#include "tests/faults/float_modes.hpp"

#include <cstdlib>

namespace {

[[gnu::constructor]] void leave_mode() {
    const char* name = std::getenv("MACHEPS_FLOAT_MODE");
    for (const macheps::test::FloatMode& mode : macheps::test::float_modes) {
        if (name != nullptr && mode.name == name) macheps::test::set(mode);
    }
}

}  // namespace
