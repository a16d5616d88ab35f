// SPDX-License-Identifier: Apache-2.0
// Interface of the GPU engine without CUDA headers. In a build without CUDA, the functions report a missing GPU.
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
    std::size_t bytes = 0;        ///< size of the device memory
};

/// Returns the properties of a GPU. Throws Error (no_device) with the reason if that GPU does not exist.
DeviceInfo device_info(int index = 0);

/// Returns an engine on a GPU. Throws Error (no_device) if that GPU does not exist.
std::unique_ptr<Backend> make_cuda_backend(int index = 0, MatrixUnits units = MatrixUnits::native);

/// Returns the cudaStream_t that an engine of make_cuda_backend launches on, or null for any other engine.
void* stream_of(Backend& backend);

}  // namespace macheps::gpu
