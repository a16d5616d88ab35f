// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/probe/matrix/probes.hpp"

#include "emulation/gpu/device/compiled_code.hpp"
#include "emulation/gpu/probe/matrix/probe.hpp"

namespace macheps::gpu {

InstructionTarget instruction_target(CudaDevice& device, int index) {
    const int capability = compute_capability(index);
    const CompiledCode compiled = compiled_code(device);
    return {.arch = "sm_" + std::to_string(capability),
            .capability = capability,
            .compiled = compiled.architecture,
            .has_wgmma = compiled.has_wgmma};
}

std::vector<verify::ProbeGroup> instruction_probe_groups(int device) {
    return instruction_probe_groups<CudaDevice>([device] {
        auto cuda = std::make_unique<CudaDevice>(device);
        const InstructionTarget target = instruction_target(*cuda, device);
        return std::make_unique<InstructionProbe<CudaDevice>>(std::move(cuda), target);
    });
}

}  // namespace macheps::gpu
