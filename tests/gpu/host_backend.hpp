// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "emulation/backend.hpp"
#include "emulation/gpu/matmul/matrix_units.hpp"

#include <memory>

namespace macheps::test {

/// Returns the GPU's engine with its kernels on the host, where an emulator replaces every matrix instruction. If
/// `guarded`, only kernels and copies can access its memory. Architecture 90 has the matrix units of sm_90.
std::unique_ptr<Backend> host_device_backend(gpu::MatrixUnits units = gpu::MatrixUnits::native, int architecture = 90,
                                             bool guarded = true);

}  // namespace macheps::test
