// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace macheps::gpu {

/// Unit that computes the sums of a matmul. emulated: kernels that emulate the machine of the matmul. native: the GPU's
/// own matrix unit, if it gives the same bits as the machine.
enum class MatrixUnits : std::uint8_t { emulated, native };

}  // namespace macheps::gpu
