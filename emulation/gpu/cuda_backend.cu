// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/cuda_device.hpp"
#include "emulation/gpu/device_backend.hpp"

namespace macheps::gpu {

extern template void matmul(CudaDevice&, DeviceMemory<CudaDevice>&, MatrixUnits, int, const Matmul&, DeviceTally*);

namespace {

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

DeviceInfo device_info(int index) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    const auto none = [](std::string what, std::string fix) {
        return Error({.what = std::move(what), .where = "cuda", .fix = std::move(fix), .exit = Exit::no_device});
    };
    if (status != cudaSuccess || count == 0) {
        throw none(std::string("no CUDA device: ") +
                       (status == cudaSuccess ? "none is installed" : cudaGetErrorString(status)),
                   "run on a machine with a GPU and its driver (see nvidia-smi), or use --device cpu");
    }
    if (index < 0 || index >= count) {
        throw none("no CUDA device " + std::to_string(index), "there are 0 .. " + std::to_string(count - 1));
    }
    cudaDeviceProp properties{};
    int driver = 0, runtime = 0;
    MACHEPS_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    MACHEPS_CUDA_CHECK(cudaDriverGetVersion(&driver));
    MACHEPS_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    return {.name = properties.name,
            .architecture = properties.major * 10 + properties.minor,
            .driver = version_text(driver),
            .runtime = version_text(runtime),
            .bytes = properties.totalGlobalMem};
}

std::unique_ptr<Backend> make_cuda_backend(int index, MatrixUnits units) {
    const DeviceInfo info = device_info(index);
    return std::make_unique<DeviceBackend<CudaDevice>>("cuda." + info.name, units, info.architecture, index);
}

void* stream_of(Backend& backend) {
    auto* engine = dynamic_cast<DeviceBackend<CudaDevice>*>(&backend);
    return engine == nullptr ? nullptr : engine->device().stream();
}

}  // namespace macheps::gpu
