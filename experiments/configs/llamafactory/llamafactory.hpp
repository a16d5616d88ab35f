// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory's YAML, for the files of its importer: keys.cpp has the keys, findings.cpp the findings,
// llamafactory.cpp the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>

namespace macheps::configs::llamafactory {

/// What hparams/parser.py, model/patcher.py and model/adapter.py derive.
struct Facts {
    bool trains = true;  ///< do_train
    bool fp16 = false, bf16 = false, pure_bf16 = false;
    std::string finetuning;  ///< lora, oft, freeze, full
    bool has_adapter = false;
    bool is_quantised = false;  ///< quantization_bit is set
    std::string base;           ///< of a quantised base: nf4, fp4, int8
    bool galore = false, apollo = false, badam = false;
    bool deepspeed = false;
    int zero_stage = 0;
    bool is_distributed = false;  ///< more ranks than one are certain: DeepSpeed or FSDP
    bool upcasts_trained = true;  ///< what is trained is cast to fp32 after loading
    char checkpoint = 'F';
    char compute = 'F';  ///< compute_dtype; no autocast by itself
    bool fp8 = false;
    bool fp8_reaches_accelerate =
        false;  ///< Transformers 4: its Trainer asks the environment when it makes the Accelerator
};

/// The compute dtype of the truth table: `asked` is what bf16, pure_bf16 and fp16 say.
char compute_dtype(bool asks_bf16, bool asks_fp16, bool torch_says_bf16, bool has_fp16, char checkpoint);

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::llamafactory
