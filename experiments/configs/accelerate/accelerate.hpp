// SPDX-License-Identifier: Apache-2.0
// What Accelerate makes of the file of `accelerate launch`, for the files of its importer.
#pragma once
#include "experiments/configs/framework.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::configs::accelerate {

/// The key that names a config of DeepSpeed.
inline constexpr std::string_view file_key = "deepspeed_config.deepspeed_config_file";

enum class Backend : std::uint8_t { none, torchao, transformer_engine, msamp };

/// What the launcher and the Accelerator derive.
struct Facts {
    std::string asked;        ///< mixed_precision in lower case: no, fp16, bf16, fp8, or what was written
    std::string precision;    ///< what it becomes on this device
    char autocast = 'F';      ///< H, B, or F where there is none
    std::string distributed;  ///< NO, MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, ...
    bool on_cpu = false;
    bool fsdp = false, deepspeed = false, megatron = false;
    int fsdp_version = 1;
    bool low_memory_loading = false;  ///< fsdp_cpu_ram_efficient_loading, on where it is not set
    Backend backend = Backend::none;  ///< of fp8, where fp8 is what it becomes
    bool backend_assumed = false;     ///< torchao is taken first of what is installed
};

Facts facts(const ImportContext& context);
/// The flags of override_linear_precision, a list of three; nothing where it is no such list.
std::optional<std::array<bool, 3>> linear_overrides(const ImportContext& context);

std::span<const KeyRow> keys();
int recognises(const files::ConfigValue& root);
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::accelerate
