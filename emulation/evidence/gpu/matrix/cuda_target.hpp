// SPDX-License-Identifier: Apache-2.0
// The target of matrix instructions on a CUDA device. Include from .cu files.
#pragma once
#include "emulation/evidence/gpu/matrix/probe.hpp"
#include "emulation/gpu/device/cuda_device.hpp"

namespace macheps::evidence {

/// Returns the architecture of device number `index`, and that of the compiled code. Throws Error if the device fails.
InstructionTarget instruction_target(gpu::CudaDevice& device, int index);

}  // namespace macheps::evidence
