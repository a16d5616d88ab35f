// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the Axolotl importer. keys.cpp lists the keys, findings.cpp and conflicts.cpp create the
// findings, and axolotl.cpp sets the fields.
#pragma once
#include "experiments/configs/framework.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"

#include <span>
#include <string>

namespace macheps::configs::axolotl {

/// Values that Axolotl derives in resolve_dtype and in its trainer builder.
struct Facts {
    bool bf16 = false, fp16 = false;  ///< autocast switches that are passed on to Transformers
    bool bf16_is_auto = false;        ///< `bf16` is `auto` or missing
    bool full_eval = false;           ///< `bf16: full`, which only old versions accept
    bool tf32 = false;
    char loaded = 'F';      ///< format in which the weights are loaded (torch_dtype)
    char autocast = 'F';    ///< format of autocast: H, B, or F if autocast is off
    std::string adapter;    ///< `lora`, `qlora`; empty in full fine-tuning
    char storage = 0;       ///< format in which 4-bit weights are stored: F, H or B, or 0 for integers
    std::string base;       ///< format of a quantised base: nf4, int8, int4, mxfp4; otherwise empty
    std::string attention;  ///< canonical name of the attention kernel; empty if none is named
    const OptimiserRow* optimiser = nullptr;  ///< null if the name is unknown
    bool fsdp = false, deepspeed = false;
    int fsdp_version = 1;
    bool saves_modules = false;  ///< with an adapter, lora_modules_to_save: whole modules are trained as well
    char adapters = 'F';         ///< format of adapters
    bool upcasts_base = false;   ///< the base is not quantised, but it is still cast to fp32 as if it were
    bool wants_cast = false;     ///< norms and embeddings are cast back to the loaded format
};

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

/// Reports combinations of keys that Axolotl refuses. The keys concern the quantised base, the adapter, the optimiser,
/// the attention kernel and sharding.
void report_conflicts(ImportContext& context, const Facts& facts);

/// Returns the value of a flag in `fsdp_config`. In the file, the key may have the older prefix `fsdp_`.
bool fsdp_flag(const ImportContext& context, std::string_view key);

/// Returns whether the trainer treats `bfloat16` as `bf16`, which turns autocast on.
bool bfloat16_is_amp(const ImportContext& context);

/// Returns whether a key is `auto`, null or missing.
bool is_auto(const ImportContext& context, std::string_view path);

}  // namespace macheps::configs::axolotl
