// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/probe/scalar/probes.hpp"

#include "emulation/gpu/device/cuda_device.hpp"
#include "emulation/gpu/probe/scalar/groups.hpp"

namespace macheps::gpu {

std::vector<verify::ProbeGroup> scalar_probe_groups(int device) {
    const auto opened = std::make_shared<std::unique_ptr<CudaDevice>>();
    return scalar_groups<CudaDevice>([opened, device]() -> CudaDevice& {
        if (*opened == nullptr) *opened = std::make_unique<CudaDevice>(device);
        return **opened;
    });
}

}  // namespace macheps::gpu
