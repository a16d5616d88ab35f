// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/host_backend.hpp"

#include "emulation/gpu/device_backend.hpp"
#include "tests/gpu/host_device.hpp"

namespace macheps::test {

std::unique_ptr<Backend> host_device_backend(gpu::MatrixUnits units, int architecture, bool guarded) {
    return std::make_unique<gpu::DeviceBackend<gpu::HostDevice>>("host_device", units, architecture, guarded);
}

}  // namespace macheps::test
