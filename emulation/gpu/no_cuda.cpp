// SPDX-License-Identifier: Apache-2.0
// The functions of gpu.hpp in a build without CUDA.
#include "core/error.hpp"
#include "emulation/gpu/gpu.hpp"

namespace macheps::gpu {

DeviceInfo device_info(int) {
    throw Error({.what = "macheps was built without CUDA",
                 .where = "cuda",
                 .fix = "build it on a computer with the CUDA toolkit (nvcc), or use `device` cpu",
                 .exit = Exit::no_device});
}

std::unique_ptr<Backend> make_cuda_backend(int index, MatrixUnits) {
    (void)device_info(index);
    return nullptr;
}

void* stream_of(Backend&) { return nullptr; }

}  // namespace macheps::gpu
