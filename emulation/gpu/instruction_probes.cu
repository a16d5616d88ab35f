// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/instruction_probes.hpp"

#include "emulation/gpu/cuda_device.hpp"
#include "emulation/gpu/instruction_probe.hpp"

namespace macheps::gpu {

namespace {

/// What the code that runs on this device was compiled for.
struct CompiledFor {
    int architecture, has_wgmma;
};

}  // namespace

/// Extended lambdas stand in functions that others can see.
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

static InstructionTarget target_of(CudaDevice& device, int index) {
    int major = 0, minor = 0;
    MACHEPS_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    MACHEPS_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    detail::DeviceBytes<CudaDevice> answers(device, sizeof(CompiledFor));
    ask_compiled_code(device, reinterpret_cast<int*>(answers.data()));
    device.wait();
    CompiledFor compiled{};
    device.copy_out(&compiled, answers.data(), sizeof compiled);
    return {.arch = "sm_" + std::to_string(10 * major + minor),
            .capability = 10 * major + minor,
            .compiled = compiled.architecture,
            .has_wgmma = compiled.has_wgmma != 0};
}

std::vector<ProbeGroup> instruction_probe_groups(int device) {
    return instruction_probe_groups<CudaDevice>([device] {
        auto cuda = std::make_unique<CudaDevice>(device);
        const InstructionTarget target = target_of(*cuda, device);
        return std::make_unique<InstructionProbe<CudaDevice>>(std::move(cuda), target);
    });
}

}  // namespace macheps::gpu
