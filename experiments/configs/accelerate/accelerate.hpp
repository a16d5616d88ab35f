// SPDX-License-Identifier: Apache-2.0
// Values that Accelerate derives from the file of `accelerate launch`, for the files of its importer.
#pragma once
#include "experiments/configs/framework.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::configs::accelerate {

/// Key that names a config of DeepSpeed.
inline constexpr std::string_view file_key = "deepspeed_config.deepspeed_config_file";

enum class Backend : std::uint8_t { none, torchao, transformer_engine, msamp };

/// Values that the launcher and the Accelerator derive.
struct Facts {
    std::string asked;        ///< mixed_precision in lower case: no, fp16, bf16, fp8, or another word of the file
    std::string precision;    ///< the precision that is used on this device
    char autocast = 'F';      ///< H, B, or F without autocast
    std::string distributed;  ///< NO, MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, ...
    bool on_cpu = false;
    bool fsdp = false, deepspeed = false, megatron = false;
    int fsdp_version = 1;
    bool low_memory_loading = false;  ///< fsdp_cpu_ram_efficient_loading, on by default
    Backend backend = Backend::none;  ///< backend of fp8, if the precision is fp8
    bool backend_assumed = false;     ///< no known backend is named, and torchao is assumed
};

Facts facts(const ImportContext& context);
/// Returns the flags of override_linear_precision, or nothing if it is not a list of three values.
std::optional<std::array<bool, 3>> linear_overrides(const ImportContext& context);

std::span<const KeyRow> keys();
int recognises(const files::ConfigValue& root);
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::accelerate
