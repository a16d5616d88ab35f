// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "emulation/backend.hpp"
#include "emulation/gpu/matmul/matrix_units.hpp"

#include <memory>

namespace macheps::test {

/// Returns the GPU backend with its kernels running on the host. An emulator replaces every matrix instruction. If
/// `guarded`, only kernels and copies can access the memory of the backend. `architecture` is the compute capability
/// that the backend simulates; 90 has the matrix units of sm_90.
std::unique_ptr<Backend> host_device_backend(gpu::MatrixUnits units = gpu::MatrixUnits::native, int architecture = 90,
                                             bool guarded = true);

}  // namespace macheps::test
