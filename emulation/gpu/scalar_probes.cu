// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/scalar_probes.hpp"

#include "emulation/gpu/cuda_device.hpp"
#include "emulation/gpu/scalar_groups.hpp"

namespace macheps::gpu {

std::vector<ProbeGroup> scalar_probe_groups(int device) {
    const auto opened = std::make_shared<std::unique_ptr<CudaDevice>>();
    return scalar_groups<CudaDevice>([opened, device]() -> CudaDevice& {
        if (*opened == nullptr) *opened = std::make_unique<CudaDevice>(device);
        return **opened;
    });
}

}  // namespace macheps::gpu
