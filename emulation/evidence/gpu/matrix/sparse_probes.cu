// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/gpu/matrix/cuda_target.hpp"
#include "emulation/evidence/gpu/matrix/probes.hpp"
#include "emulation/evidence/gpu/matrix/sparse_probe.hpp"

namespace macheps::evidence {

std::vector<evidence::ProbeGroup> sparse_probe_groups(int device) {
    return sparse_probe_groups<gpu::CudaDevice>([device] {
        auto cuda = std::make_unique<gpu::CudaDevice>(device);
        const InstructionTarget target = instruction_target(*cuda, device);
        return std::make_unique<SparseProbe<gpu::CudaDevice>>(std::move(cuda), target);
    });
}

}  // namespace macheps::evidence
