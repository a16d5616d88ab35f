// SPDX-License-Identifier: Apache-2.0
// What the rest of macheps sees of the GPU: no CUDA header, and in a build without CUDA functions that say so.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/gpu/matmul/matrix_units.hpp"

#include <memory>
#include <string>

namespace macheps::gpu {

struct DeviceInfo {
    std::string name;             ///< `NVIDIA H200`
    int architecture = 0;         ///< 90: sm_90
    std::string driver, runtime;  ///< versions of the CUDA API: `13.0`
    std::size_t bytes = 0;        ///< of memory
};

/// The GPU of that index; throws Error (no_device) saying why there is none.
DeviceInfo device_info(int index = 0);

/// The engine on that GPU; throws Error (no_device) when there is none.
std::unique_ptr<Backend> make_cuda_backend(int index = 0, MatrixUnits units = MatrixUnits::native);

/// The cudaStream_t that an engine of make_cuda_backend launches on; null for any other.
void* stream_of(Backend& backend);

}  // namespace macheps::gpu
