// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/device/compiled_code.hpp"
#include "emulation/gpu/device_backend.hpp"

namespace macheps::gpu {

extern template void matmul(CudaDevice&, DeviceMemory<CudaDevice>&, MatrixUnits, int, const Matmul&, DeviceTally*);

namespace {

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

/// Writes the architecture of the running code, and whether it has wgmma, to `answers`. This function is not in the
/// unnamed namespace, because a function that contains an extended lambda needs external linkage.
void ask_compiled_code(CudaDevice& device, int* answers) {
    device.each(1, [=] MACHEPS_KERNEL(std::int64_t) {
#if defined(__CUDA_ARCH__)
        answers[0] = __CUDA_ARCH__ / 10;
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        answers[1] = 1;
#else
        answers[1] = 0;
#endif
    });
}

CompiledCode compiled_code(CudaDevice& device) {
    int host[2] = {};
    const std::shared_ptr<void> answers(device.allocate(sizeof host), [&](void* memory) { device.release(memory); });
    ask_compiled_code(device, static_cast<int*>(answers.get()));
    device.copy_out(host, answers.get(), sizeof host);
    return {.architecture = host[0], .has_wgmma = host[1] != 0};
}

DeviceInfo device_info(int index) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    const auto none = [](std::string what, std::string fix) {
        return Error({.what = std::move(what), .where = "cuda", .fix = std::move(fix), .exit = Exit::no_device});
    };
    if (status != cudaSuccess || count == 0) {
        throw none(std::string("no CUDA device: ") +
                       (status == cudaSuccess ? "none is installed" : cudaGetErrorString(status)),
                   "run on a computer with a GPU and its driver (see nvidia-smi), or use `device` cpu");
    }
    if (index < 0 || index >= count) {
        throw none("no CUDA device " + std::to_string(index), "use 0 to " + std::to_string(count - 1));
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
    auto engine = std::make_unique<DeviceBackend<CudaDevice>>("cuda." + info.name, units, info.architecture, index);
    if (units == MatrixUnits::native && info.architecture == 90 && !compiled_code(engine->device()).has_wgmma) {
        throw Error(
            {.what = "the code that runs on " + info.name + " was not compiled for sm_90a, which its wgmma needs",
             .where = "cuda",
             .fix = "add 90a-real to CMAKE_CUDA_ARCHITECTURES, build again and unset CUDA_FORCE_PTX_JIT, or use "
                    "`matrix_units` emulated",
             .exit = Exit::no_device});
    }
    return engine;
}

void* stream_of(Backend& backend) {
    auto* engine = dynamic_cast<DeviceBackend<CudaDevice>*>(&backend);
    return engine == nullptr ? nullptr : engine->device().stream();
}

}  // namespace macheps::gpu
