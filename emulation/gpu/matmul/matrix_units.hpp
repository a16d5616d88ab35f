// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace macheps::gpu {

/// Where a matmul's sums are made: by the scalar definition of its machine, or by the GPU's own matrix unit where that
/// is the machine.
enum class MatrixUnits : std::uint8_t { emulated, native };

}  // namespace macheps::gpu
