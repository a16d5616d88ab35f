// SPDX-License-Identifier: Apache-2.0
// Axolotl's YAML, for the files of its importer: keys.cpp has the keys, findings.cpp the findings,
// axolotl.cpp the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>

namespace macheps::configs::axolotl {

/// What resolve_dtype and the builder of the trainer derive.
struct Facts {
    bool bf16 = false, fp16 = false;  ///< as handed to Transformers: autocast
    bool bf16_is_auto = false;        ///< `auto`, or left out
    bool full_eval = false;           ///< `bf16: full` of old versions
    bool tf32 = false;
    char loaded = 'F';      ///< torch_dtype: how the weights are loaded
    char autocast = 'F';    ///< H, B, or F where there is none
    std::string adapter;    ///< `lora`, `qlora`; empty in full fine-tuning
    std::string base;       ///< of a quantised base: nf4, int8, int4, mxfp4; else empty
    std::string attention;  ///< the canonical name of the kernel; empty where none is named
    bool fsdp = false, deepspeed = false;
    int fsdp_version = 1;
    bool upcasts_base = false;  ///< asked for bits that the loader ignores, and cast to fp32 as if they were there
    bool wants_cast = false;    ///< something makes norms and embeddings go back to the loaded format
};

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

/// Refusals that are about several keys together: the base, the adapter, the optimiser and how the run is sharded.
void report_conflicts(ImportContext& context, const Facts& facts);

/// A flag of `fsdp_config`, with the older prefix `fsdp_` or without it.
bool fsdp_flag(const ImportContext& context, std::string_view key);

/// True for `auto`, and for a key that is left out or null.
bool is_auto(const ImportContext& context, std::string_view path);

}  // namespace macheps::configs::axolotl
