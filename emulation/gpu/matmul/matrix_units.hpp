// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace macheps::gpu {

/// Units that compute the sums of a matmul on a machine: kernels that emulate the machine, or the GPU's own matrix unit
/// if it gives the same bits.
enum class MatrixUnits : std::uint8_t { emulated, native };

}  // namespace macheps::gpu
