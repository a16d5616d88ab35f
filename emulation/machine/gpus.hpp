// SPDX-License-Identifier: Apache-2.0
// Names of GPUs, and the matrix units that each GPU has.
#pragma once
#include "emulation/machine/machine.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace macheps {

/// A GPU by its common name, and the architecture of its matrix units.
struct Gpu {
    std::string_view name;  ///< `h100`
    std::string_view arch;  ///< a word of Machine::arch
};

std::span<const Gpu> known_gpus();

/// Returns the machines of a GPU or of an architecture (`h100`, `sm_90`, `CDNA3`), in upper or lower case. Returns none
/// for other names.
std::vector<const Machine*> machines_of_gpu(std::string_view name);

}  // namespace macheps
