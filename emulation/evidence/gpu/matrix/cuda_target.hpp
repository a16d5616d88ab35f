// SPDX-License-Identifier: Apache-2.0
// Architecture of a CUDA device, for probes of its matrix instructions. Include from .cu files.
#pragma once
#include "emulation/evidence/gpu/matrix/probe.hpp"
#include "emulation/gpu/device/cuda_device.hpp"

namespace macheps::evidence {

/// Returns the architecture of device number `index` and the architecture that the code is compiled for. Throws Error
/// if the device fails.
InstructionTarget instruction_target(gpu::CudaDevice& device, int index);

}  // namespace macheps::evidence
