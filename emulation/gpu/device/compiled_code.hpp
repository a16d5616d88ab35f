// SPDX-License-Identifier: Apache-2.0
// Finds the target for which the code that runs on a device was compiled. Include only from .cu files.
#pragma once
#include "emulation/gpu/device/cuda_device.hpp"

namespace macheps::gpu {

struct CompiledCode {
    int architecture = 0;  ///< 90 means sm_90 or compute_90
    bool has_wgmma = false;
};

/// Returns the target of the code that runs on the device. A kernel has to report it, because the driver may have
/// compiled the code from PTX.
CompiledCode compiled_code(CudaDevice& device);

}  // namespace macheps::gpu
