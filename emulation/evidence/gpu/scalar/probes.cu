// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/gpu/scalar/probes.hpp"

#include "emulation/evidence/gpu/scalar/groups.hpp"
#include "emulation/gpu/device/cuda_device.hpp"

namespace macheps::evidence {

std::vector<evidence::ProbeGroup> scalar_probe_groups(int device) {
    const auto opened = std::make_shared<std::unique_ptr<gpu::CudaDevice>>();
    return scalar_groups<gpu::CudaDevice>([opened, device]() -> gpu::CudaDevice& {
        if (*opened == nullptr) *opened = std::make_unique<gpu::CudaDevice>(device);
        return **opened;
    });
}

}  // namespace macheps::evidence
