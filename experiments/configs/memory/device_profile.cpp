// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/memory/device_profile.hpp"

#include "core/text/nearest_name.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace macheps::configs {

namespace {

using Kind = DeviceProfile::Kind;

constexpr std::string_view nvidia_fp8 = "e4m3fn e5m2", amd_fp8 = "e4m3fnuz e5m2fnuz";

constexpr DeviceProfile profiles[] = {
    {.name = "cpu", .kind = Kind::cpu, .bf16 = true, .torch_says_bf16 = true},
    {.name = "p100", .major = 6, .minor = 0, .fp16 = true, .torch_says_bf16 = true},
    {.name = "v100", .major = 7, .minor = 0, .fp16 = true, .torch_says_bf16 = true},
    {.name = "t4", .major = 7, .minor = 5, .fp16 = true, .torch_says_bf16 = true},
    // TU116 and TU117 have no tensor cores. pytorch #58123, #77955.
    {.name = "gtx1660", .major = 7, .minor = 5, .fp16 = true, .torch_says_bf16 = true, .has_nan_convolutions = true},
    {.name = "a100", .major = 8, .minor = 0, .fp16 = true, .bf16 = true, .tf32 = true, .torch_says_bf16 = true},
    {.name = "a10", .major = 8, .minor = 6, .fp16 = true, .bf16 = true, .tf32 = true, .torch_says_bf16 = true},
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
    {.name = "mi250", .kind = Kind::rocm, .major = 9, .minor = 0, .fp16 = true, .bf16 = true, .torch_says_bf16 = true},
    {.name = "tpu", .kind = Kind::tpu, .bf16 = true, .torch_says_bf16 = true},
    {.name = "npu", .kind = Kind::npu, .fp16 = true, .bf16 = true, .torch_says_bf16 = true},
};

/// A device with the compute capability and the formats of a profile.
struct DeviceAlias {
    std::string_view name, profile;
};

// Compute capabilities: NVIDIA's list of CUDA GPUs. Devices whose formats or capability differ from every profile, such
// as the RTX 5090 (12.0) and Gaudi, are not listed.
constexpr DeviceAlias aliases[] = {
    {"gtx1650", "gtx1660"}, {"rtx2080ti", "t4"}, {"a30", "a100"},      {"a800", "a100"},     {"a40", "a10"},
    {"a10g", "a10"},        {"rtx3090", "a10"},  {"3090", "a10"},      {"rtxa6000", "a10"},  {"l4", "l40"},
    {"l40s", "l40"},        {"rtx4090", "l40"},  {"4090", "l40"},      {"rtx4080", "l40"},   {"h200", "h100"},
    {"h800", "h100"},       {"gh200", "h100"},   {"b100", "b200"},     {"gb200", "b200"},    {"mi100", "mi250"},
    {"mi210", "mi250"},     {"mi250x", "mi250"}, {"mi325x", "mi300x"}, {"mi300a", "mi300x"},
};

}  // namespace

std::span<const DeviceProfile> device_profiles() { return profiles; }

std::vector<std::string_view> device_names() {
    std::vector<std::string_view> names;
    for (const DeviceProfile& one : profiles) names.push_back(one.name);
    for (const DeviceAlias& one : aliases) names.push_back(one.name);
    return names;
}

const DeviceProfile* find_device_profile(std::string_view name) {
    std::string wanted = lowered(name);
    for (const DeviceAlias& one : aliases) {
        if (one.name == wanted) wanted = one.profile;
    }
    const auto found = std::find_if(std::begin(profiles), std::end(profiles),
                                    [&](const DeviceProfile& one) { return one.name == wanted; });
    return found == std::end(profiles) ? nullptr : found;
}

}  // namespace macheps::configs
