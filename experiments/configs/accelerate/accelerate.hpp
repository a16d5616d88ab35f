// SPDX-License-Identifier: Apache-2.0
// Values that Accelerate derives from the config file of `accelerate launch`. The source files of the Accelerate
// importer share them.
#pragma once
#include "experiments/configs/framework.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace macheps::configs::accelerate {

/// Key that names the config file of DeepSpeed. prepare() replaces the name by the contents of the file.
inline constexpr std::string_view file_key = "deepspeed_config.deepspeed_config_file";

enum class Backend : std::uint8_t { none, torchao, transformer_engine, msamp };

/// The sources of the fp8 backend if the launcher's file requests fp8 and the program passes no recipe.
enum class Fp8Source : std::uint8_t {
    file,       ///< the section fp8_config
    installed,  ///< the first installed one of torchao, Transformer Engine and MS-AMP; fp8_config.backend is not read
    none,       ///< the request does not reach the Accelerator, and nothing is computed in fp8
    raises,     ///< the Accelerator raises an error, because it has no recipe
};

/// Values that `accelerate launch` and the class Accelerator derive from the file.
struct Facts {
    std::string asked;        ///< mixed_precision in lower case: no, fp16, bf16, fp8, or an unknown word
    std::string precision;    ///< the precision that is used on this device
    bool lacks_fp8 = false;   ///< fp8 is requested, but the GPU has none
    char autocast = 'F';      ///< format of autocast: H, B, or F if autocast is off
    std::string distributed;  ///< NO, MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, ...
    bool on_cpu = false;
    bool fsdp = false, deepspeed = false, megatron = false;
    int fsdp_version = 1;
    bool low_memory_loading = false;         ///< fsdp_cpu_ram_efficient_loading, on by default
    Backend backend = Backend::none;         ///< backend of fp8, if fp8 is used
    bool backend_assumed = false;            ///< no known backend is named
    Fp8Source fp8_source = Fp8Source::file;  ///< meaningful only if the precision is fp8
};

Facts facts(const ImportContext& context);
/// Returns the flags of override_linear_precision, or nothing if it is not a list of three values.
std::optional<std::array<bool, 3>> linear_overrides(const ImportContext& context);

std::span<const KeyRow> keys();
int recognises(const files::ConfigValue& root);
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::accelerate
