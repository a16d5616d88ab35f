// SPDX-License-Identifier: Apache-2.0
// The matmul kernels. They are in a separate file because they take the longest to compile.
#include "emulation/gpu/device/cuda_device.hpp"
#include "emulation/gpu/device/device_memory.hpp"
#include "emulation/gpu/matmul/matmul.hpp"

namespace macheps::gpu {

template void matmul(CudaDevice&, DeviceMemory<CudaDevice>&, MatrixUnits, int, const Matmul&, DeviceTally*);

}  // namespace macheps::gpu
