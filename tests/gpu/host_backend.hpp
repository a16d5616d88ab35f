// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "emulation/backend.hpp"
#include "emulation/gpu/matmul/matrix_units.hpp"

#include <memory>

namespace macheps::test {

/// The kernels of the GPU's engine on the host, where an emulator stands for every matrix instruction. Its memory is
/// closed to whoever is not a kernel, if it is guarded. architecture 90: the matrix units of sm_90.
std::unique_ptr<Backend> host_device_backend(gpu::MatrixUnits units = gpu::MatrixUnits::native, int architecture = 90,
                                             bool guarded = true);

}  // namespace macheps::test
