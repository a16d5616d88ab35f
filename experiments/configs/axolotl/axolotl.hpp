// SPDX-License-Identifier: Apache-2.0
// Axolotl's YAML, for the files of its importer: keys.cpp has the keys, findings.cpp and conflicts.cpp the findings,
// axolotl.cpp the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>

namespace macheps::configs::axolotl {

/// Values that resolve_dtype and the builder of the trainer derive.
struct Facts {
    bool bf16 = false, fp16 = false;  ///< autocast, as passed on to Transformers
    bool bf16_is_auto = false;        ///< `auto`, or left out
    bool full_eval = false;           ///< `bf16: full` of old versions
    bool tf32 = false;
    char loaded = 'F';      ///< torch_dtype: how the weights are loaded
    char autocast = 'F';    ///< H, B, or F without autocast
    std::string adapter;    ///< `lora`, `qlora`; empty in full fine-tuning
    std::string base;       ///< format of a quantised base: nf4, int8, int4, mxfp4; otherwise empty
    std::string attention;  ///< canonical name of the kernel; empty if none is named
    bool fsdp = false, deepspeed = false;
    int fsdp_version = 1;
    bool upcasts_base = false;  ///< the loader ignores the requested bits, but the base is cast to fp32 as if quantised
    bool wants_cast = false;    ///< norms and embeddings are cast back to the loaded format
};

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

/// Reports refusals that involve several keys: the base, the adapter, the optimiser and how the run is sharded.
void report_conflicts(ImportContext& context, const Facts& facts);

/// Returns a flag of `fsdp_config`, with the older prefix `fsdp_` or without it.
bool fsdp_flag(const ImportContext& context, std::string_view key);

/// Returns whether a key is `auto`, null or missing.
bool is_auto(const ImportContext& context, std::string_view path);

}  // namespace macheps::configs::axolotl
