// SPDX-License-Identifier: Apache-2.0
// Devices as importers see them: what they multiply natively, and what torch reports about them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace macheps::configs {

struct DeviceProfile {
    enum class Kind : std::uint8_t { cpu, cuda, rocm, tpu, npu };
    std::string_view name;  ///< `a100`
    Kind kind = Kind::cuda;
    int major = 0, minor = 0;                                    ///< compute capability; 0.0 if there is none
    bool fp16 = false, bf16 = false, tf32 = false, fp8 = false;  ///< native in matmuls
    std::string_view fp8_formats{};                              ///< "e4m3fn e5m2", "e4m3fnuz e5m2fnuz"
    /// Result of torch.cuda.is_bf16_supported() and similar functions. Since torch 2.2, emulation counts on every CUDA
    /// device.
    bool torch_says_bf16 = false;
    /// Returns the same for accelerators only, and false for a CPU, like `auto` of Axolotl and pure_bf16 of
    /// LLaMA-Factory.
    bool torch_says_gpu_bf16() const { return kind != Kind::cpu && torch_says_bf16; }
    /// Returns the result of is_torch_tf32_available() of Transformers. It requires CUDA, so it is false for the tf32
    /// of AMD.
    bool torch_says_tf32() const { return kind == Kind::cuda && tf32; }
    bool is_cuda_like() const { return kind == Kind::cuda || kind == Kind::rocm; }
    int capability() const { return major * 10 + minor; }
};

std::span<const DeviceProfile> device_profiles();
const DeviceProfile* find_device_profile(std::string_view name);

}  // namespace macheps::configs
