// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the LLaMA-Factory importer. keys.cpp lists the keys, findings.cpp creates the findings, and
// llamafactory.cpp sets the fields.
#pragma once
#include "experiments/configs/framework.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"

#include <span>
#include <string>

namespace macheps::configs::llamafactory {

/// Values that LLaMA-Factory derives in hparams/parser.py, model/patcher.py and model/adapter.py.
struct Facts {
    bool trains = true;  ///< do_train
    bool fp16 = false, bf16 = false, pure_bf16 = false;
    std::string finetuning;  ///< lora, oft, freeze, full
    bool has_adapter = false;
    bool is_quantised = false;     ///< quantization_bit is set
    bool is_prequantised = false;  ///< the name of the model says that its checkpoint is quantised
    std::string base;              ///< format of a quantised base: nf4, fp4, or int1 to int8; otherwise empty
    bool galore = false, apollo = false, badam = false;
    const OptimiserRow* optimiser = nullptr;  ///< of a key that replaces the optimiser; null if there is none
    std::string optim;                        ///< the name of Transformers' optimiser, or its default
    const OptimiserRow* update = nullptr;     ///< of the optimiser whose state is kept; null if its name is unknown
    bool deepspeed = false;
    int zero_stage = 0;
    bool is_distributed = false;  ///< DeepSpeed or FSDP is set, so there are several ranks
    bool upcasts_trained = true;  ///< the trained parameters are cast to fp32 after loading
    char checkpoint = 'F';
    char trained = 'F';           ///< format of trained weights; those of additional_target are not included
    char frozen = 'F';            ///< format of the other weights, or of all weights if all are trained
    bool freezes_layers = false;  ///< finetuning_type is `freeze`: only some layers are trained
    char compute = 'F';           ///< compute_dtype, which does not imply autocast
    bool fp8 = false;
    /// Why the request for fp8, which is an environment variable, does not reach Accelerate. Empty if it does.
    std::string fp8_lost;
};

/// Returns the compute dtype that LLaMA-Factory chooses for these inputs. `asks_bf16` is true if bf16 or pure_bf16 is
/// on. `checkpoint` is the dtype of the checkpoint, or 0 if it is unknown.
char compute_dtype(bool asks_bf16, bool asks_fp16, bool torch_says_bf16, bool has_fp16, char checkpoint);

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::llamafactory
