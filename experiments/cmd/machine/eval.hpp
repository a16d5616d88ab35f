// SPDX-License-Identifier: Apache-2.0
// `macheps machine eval`: compares recorded results of matrix units (JSON Lines) with the emulation.
#pragma once
#include "core/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace macheps::cmd::machine {

struct EvalOptions {
    std::string path;                  ///< `-`: stdin
    std::vector<std::string> engines;  ///< names from instruction_engines(); each engine computes every line
    std::uint64_t shown = 10;          ///< mismatches printed in full
    bool json = false;
};

/// Returns the names of instruction_engines().
std::vector<std::string> instruction_engine_names();

/// Prints mismatches, disputed lines and counts per instruction. Returns Exit::check_failed if a line disagrees.
/// Errors: throws Error (bad_input) at a line that cannot be read, (usage) for an unknown engine.
Exit machine_eval(const EvalOptions& options);

}  // namespace macheps::cmd::machine
