// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/gpu/matrix/cuda_target.hpp"
#include "emulation/evidence/gpu/matrix/probes.hpp"

#include "emulation/evidence/gpu/matrix/probe.hpp"
#include "emulation/gpu/device/compiled_code.hpp"

namespace macheps::evidence {

InstructionTarget instruction_target(gpu::CudaDevice& device, int index) {
    const int capability = gpu::compute_capability(index);
    const gpu::CompiledCode compiled = gpu::compiled_code(device);
    return {.arch = "sm_" + std::to_string(capability),
            .capability = capability,
            .compiled = compiled.architecture,
            .has_wgmma = compiled.has_wgmma};
}

std::vector<evidence::ProbeGroup> instruction_probe_groups(int device) {
    return instruction_probe_groups<gpu::CudaDevice>([device] {
        auto cuda = std::make_unique<gpu::CudaDevice>(device);
        const InstructionTarget target = instruction_target(*cuda, device);
        return std::make_unique<InstructionProbe<gpu::CudaDevice>>(std::move(cuda), target);
    });
}

}  // namespace macheps::evidence
