// SPDX-License-Identifier: Apache-2.0
// What the code that a device runs was compiled for. Include from .cu files.
#pragma once
#include "emulation/gpu/device/cuda_device.hpp"

namespace macheps::gpu {

struct CompiledCode {
    int architecture = 0;  ///< 90: sm_90 or compute_90
    bool has_wgmma = false;
};

/// Asks by a kernel, for the driver may have compiled it from PTX.
CompiledCode compiled_code(CudaDevice& device);

}  // namespace macheps::gpu
