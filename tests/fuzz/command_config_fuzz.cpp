// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of command lines and shell scripts. A config is read within the limits and passed to an importer,
// or refused with an Error that names the file.
#include "tests/fuzz/config_fuzz.hpp"

using namespace macheps;
using namespace macheps::files;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::read_config(fuzz::text(data, size), [](std::string_view text) { return read_command_config(text, "fuzz"); });
    return 0;
}
