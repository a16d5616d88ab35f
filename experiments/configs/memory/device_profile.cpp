// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/memory/device_profile.hpp"

#include <algorithm>
#include <iterator>

namespace macheps::configs {

namespace {

using Kind = DeviceProfile::Kind;

constexpr std::string_view nvidia_fp8 = "e4m3fn e5m2", amd_fp8 = "e4m3fnuz e5m2fnuz";

constexpr DeviceProfile profiles[] = {
    {.name = "cpu", .kind = Kind::cpu, .bf16 = true, .torch_says_bf16 = true},
    {.name = "v100", .major = 7, .minor = 0, .fp16 = true, .torch_says_bf16 = true},
    {.name = "t4", .major = 7, .minor = 5, .fp16 = true, .torch_says_bf16 = true},
    {.name = "a100", .major = 8, .minor = 0, .fp16 = true, .bf16 = true, .tf32 = true, .torch_says_bf16 = true},
    {.name = "l40",
     .major = 8,
     .minor = 9,
     .fp16 = true,
     .bf16 = true,
     .tf32 = true,
     .fp8 = true,
     .fp8_formats = nvidia_fp8,
     .torch_says_bf16 = true},
    {.name = "h100",
     .major = 9,
     .minor = 0,
     .fp16 = true,
     .bf16 = true,
     .tf32 = true,
     .fp8 = true,
     .fp8_formats = nvidia_fp8,
     .torch_says_bf16 = true},
    {.name = "b200",
     .major = 10,
     .minor = 0,
     .fp16 = true,
     .bf16 = true,
     .tf32 = true,
     .fp8 = true,
     .fp8_formats = nvidia_fp8,
     .torch_says_bf16 = true},
    {.name = "mi300x",
     .kind = Kind::rocm,
     .major = 9,
     .minor = 4,
     .fp16 = true,
     .bf16 = true,
     .tf32 = true,
     .fp8 = true,
     .fp8_formats = amd_fp8,
     .torch_says_bf16 = true},
    {.name = "tpu", .kind = Kind::tpu, .bf16 = true, .torch_says_bf16 = true},
    {.name = "npu", .kind = Kind::npu, .fp16 = true, .bf16 = true, .torch_says_bf16 = true},
};

}  // namespace

std::span<const DeviceProfile> device_profiles() { return profiles; }

const DeviceProfile* find_device_profile(std::string_view name) {
    const auto found = std::find_if(std::begin(profiles), std::end(profiles),
                                    [&](const DeviceProfile& one) { return one.name == name; });
    return found == std::end(profiles) ? nullptr : found;
}

}  // namespace macheps::configs
