// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory's YAML, for the files of its importer: keys.cpp has the keys, findings.cpp the findings,
// llamafactory.cpp the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>

namespace macheps::configs::llamafactory {

/// Values that hparams/parser.py, model/patcher.py and model/adapter.py derive.
struct Facts {
    bool trains = true;  ///< do_train
    bool fp16 = false, bf16 = false, pure_bf16 = false;
    std::string finetuning;  ///< lora, oft, freeze, full
    bool has_adapter = false;
    bool is_quantised = false;  ///< quantization_bit is set
    std::string base;           ///< format of a quantised base: nf4, fp4, or int1 to int8
    bool galore = false, apollo = false, badam = false;
    bool deepspeed = false;
    int zero_stage = 0;
    bool is_distributed = false;  ///< DeepSpeed or FSDP is set, so there are several ranks
    bool upcasts_trained = true;  ///< the trained parameters are cast to fp32 after loading
    char checkpoint = 'F';
    char compute = 'F';  ///< compute_dtype, which does not imply autocast
    bool fp8 = false;
    bool fp8_reaches_accelerate =
        false;  ///< with Transformers 4, whose Trainer reads the environment when it creates the Accelerator
};

/// Returns the compute dtype of LLaMA-Factory's truth table. `asks_bf16` is the OR of bf16 and pure_bf16. `checkpoint`
/// is 0 if its dtype is unknown.
char compute_dtype(bool asks_bf16, bool asks_fp16, bool torch_says_bf16, bool has_fp16, char checkpoint);

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::llamafactory
