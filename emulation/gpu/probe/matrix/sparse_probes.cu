// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/device/compiled_code.hpp"
#include "emulation/gpu/probe/matrix/probes.hpp"
#include "emulation/gpu/probe/matrix/sparse_probe.hpp"

namespace macheps::gpu {

std::vector<verify::ProbeGroup> sparse_probe_groups(int device) {
    return sparse_probe_groups<CudaDevice>([device] {
        auto cuda = std::make_unique<CudaDevice>(device);
        const InstructionTarget target = instruction_target(*cuda, device);
        return std::make_unique<SparseProbe<CudaDevice>>(std::move(cuda), target);
    });
}

}  // namespace macheps::gpu
