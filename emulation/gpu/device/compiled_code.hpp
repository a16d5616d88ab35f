// SPDX-License-Identifier: Apache-2.0
// The target that a device's running code was compiled for. Include from .cu files.
#pragma once
#include "emulation/gpu/device/cuda_device.hpp"

namespace macheps::gpu {

struct CompiledCode {
    int architecture = 0;  ///< 90: sm_90 or compute_90
    bool has_wgmma = false;
};

/// Runs a kernel to find the target, because the driver may have compiled the code from PTX.
CompiledCode compiled_code(CudaDevice& device);

}  // namespace macheps::gpu
