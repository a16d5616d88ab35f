// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's JSON, for the files of its importer: keys.cpp has the keys, findings.cpp the findings,
// deepspeed.cpp the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>
#include <string_view>

namespace macheps::configs::deepspeed {

/// What the engine derives from the sections before it makes an optimiser.
struct Facts {
    bool fp16 = false, bf16 = false;  ///< the switches, as this version reads them
    bool amp = false, autocast = false;
    char low = 'F';                ///< format of the model: H, B, or F without a switch
    char accum = 'F';              ///< of the sum over micro-batches; 0 for a name that is no dtype
    int stage = 0;                 ///< of ZeRO
    bool offload = false;          ///< the optimiser's state is on the CPU
    double loss_scale = 0;         ///< 0 is dynamic; a boolean counts as a number, which only 0.16.5 lets pass
    bool dynamic = false;          ///< the loss scale is: fp16 with loss_scale 0
    bool has_scaler_keys = false;  ///< one of the five keys of the dynamic scale stands in the file
    std::string optimizer;         ///< its type in lower case, empty where the program brings its own
    bool fused = false;            ///< at stage 0, the fused wrapper (Adam) rather than the unfused one
    bool bf16_optimizer = false;   ///< BF16_Optimizer: gradients are summed in fp32 apart from the model
};

Facts facts(const ImportContext& context);

/// The versions that changed numbers.
bool has_models(const ImportContext& context);  ///< 0.17.1: typed fp16 and bf16 sections, the scaler's growth test
bool is_auto(const ImportContext& context, std::string_view path);

std::span<const KeyRow> keys();
int recognises(const files::ConfigValue& root);
bool refuses_unknown(const ImportContext& context, std::string_view path);
std::optional<FindingCode> judges_type(const ImportContext& context, const KeyRow& row,
                                       const files::ConfigValue& value);
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::deepspeed
