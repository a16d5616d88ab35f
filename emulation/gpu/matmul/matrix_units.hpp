// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace macheps::gpu {

/// Where the sums of a matmul on a machine are made: by kernels that emulate the machine, or, where the GPU's own matrix
/// unit gives the machine's bits, on that unit.
enum class MatrixUnits : std::uint8_t { emulated, native };

}  // namespace macheps::gpu
