// SPDX-License-Identifier: Apache-2.0
// The kernels of matmuls, apart from the others: they take a compiler the longest.
#include "emulation/gpu/device/cuda_device.hpp"
#include "emulation/gpu/device/device_memory.hpp"
#include "emulation/gpu/matmul/matmul.hpp"

namespace macheps::gpu {

template void matmul(CudaDevice&, DeviceMemory<CudaDevice>&, MatrixUnits, int, const Matmul&, DeviceTally*);

}  // namespace macheps::gpu
