// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the DeepSpeed importer. keys.cpp lists the keys, findings.cpp creates the findings, and
// deepspeed.cpp sets the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>
#include <string_view>

namespace macheps::configs::deepspeed {

/// Values that DeepSpeed's engine derives from the sections before it creates an optimiser.
struct Facts {
    bool fp16 = false, bf16 = false;  ///< whether the sections are enabled, as this version reads them
    bool amp = false, autocast = false;
    char low = 'F';                ///< format of the model: H, B, or F if no section is enabled
    char accum = 'F';              ///< format in which gradients are summed over micro-batches; 0 if unknown
    int stage = 0;                 ///< ZeRO stage
    bool offload = false;          ///< the optimiser's state is on the CPU
    double loss_scale = 0;         ///< 0 is dynamic; versions before 0.17.1 read a boolean as a number
    bool dynamic = false;          ///< the loss scale is dynamic: fp16 with loss_scale 0
    bool has_scaler_keys = false;  ///< the file has one of the five keys of the dynamic scale
    std::string optimizer;         ///< type in lower case; empty if the program brings its own
    bool fused = false;            ///< at ZeRO stage 0: whether the wrapper for fused Adam is used
    bool bf16_optimizer = false;   ///< BF16_Optimizer, which sums gradients in fp32 outside the model
    bool wrong_wrapper = false;    ///< fp32 sums were requested, but FP16_UnfusedOptimizer, which has none, is used
};

Facts facts(const ImportContext& context);

/// Returns whether the engine would use FP16_UnfusedOptimizer for bf16 gradients with fp32 sums, for which it means to
/// use BF16_Optimizer. From 0.17.6 to 0.18.4, the constants of both wrappers have the same value, "bf16".
bool confuses_wrappers(const ImportContext& context, const Facts& facts);

/// Returns advice to sum bf16 gradients in fp32, as settings with their sections. Reads only `low`, `amp`, `stage` and
/// `offload` of the facts.
std::string advise_fp32_sums(const ImportContext& context, const Facts& facts);

/// Returns whether a step whose gradients contain Inf or NaN is skipped although the loss is not scaled: with bf16, fp32
/// or autocast to bf16.
bool skips_invalid_steps(const ImportContext& context, const Facts& facts);

/// Returns whether the version is at least 0.17.1. That version introduced typed fp16 and bf16 sections and changed
/// when the loss scale grows.
bool has_models(const ImportContext& context);
bool is_auto(const ImportContext& context, std::string_view path);

std::span<const KeyRow> keys();
int recognises(const files::ConfigValue& root);
bool refuses_unknown(const ImportContext& context, std::string_view path);
std::optional<FindingCode> judges_type(const ImportContext& context, const KeyRow& row,
                                       const files::ConfigValue& value);
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::deepspeed
