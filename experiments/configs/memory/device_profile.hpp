// SPDX-License-Identifier: Apache-2.0
// Device profiles for importers: which formats a device multiplies natively, and what torch reports about the device.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace macheps::configs {

struct DeviceProfile {
    enum class Kind : std::uint8_t { cpu, cuda, rocm, tpu, npu };
    std::string_view name;  ///< `a100`
    Kind kind = Kind::cuda;
    int major = 0, minor = 0;                                    ///< compute capability; 0.0 if there is none
    bool fp16 = false, bf16 = false, tf32 = false, fp8 = false;  ///< formats that matmuls support natively
    std::string_view fp8_formats{};                              ///< "e4m3fn e5m2", "e4m3fnuz e5m2fnuz"
    /// Result of torch.cuda.is_bf16_supported() and similar functions. Since torch 2.3, it is true for every CUDA
    /// device, because emulated bf16 counts.
    bool torch_says_bf16 = false;
    /// Returns torch_says_bf16 for an accelerator, and false for a CPU. Axolotl (`auto`) and LLaMA-Factory (pure_bf16)
    /// test this condition.
    bool torch_says_gpu_bf16() const { return kind != Kind::cpu && torch_says_bf16; }
    /// Returns the result of is_torch_tf32_available() of Transformers. That function requires CUDA, so the result is
    /// false even for AMD GPUs with tf32.
    bool torch_says_tf32() const { return kind == Kind::cuda && tf32; }
    bool has_nan_convolutions = false;  ///< convolutions in fp16 may return NaN
    bool is_cuda_like() const { return kind == Kind::cuda || kind == Kind::rocm; }
    int capability() const { return major * 10 + minor; }
};

std::span<const DeviceProfile> device_profiles();
/// Returns the names of all profiles and of all devices that share a profile, such as h200 with h100.
std::vector<std::string_view> device_names();
/// Returns the profile with this name or the profile that this device shares, or nullptr.
const DeviceProfile* find_device_profile(std::string_view name);

}  // namespace macheps::configs
