// SPDX-License-Identifier: Apache-2.0
// What Transformers makes of TrainingArguments, for the files of its importer and for frameworks that hand their own
// arguments on to it.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>

namespace macheps::configs::transformers {

/// What TrainingArguments and the Trainer derive from the arguments.
struct Facts {
    bool fp16 = false, bf16 = false;
    bool from_environment = false;  ///< neither flag is set, and ACCELERATE_MIXED_PRECISION speaks
    bool apex = false;
    bool on_cpu = false;    ///< use_cpu, no_cuda, or a device that is a CPU
    bool says_cpu = false;  ///< use_cpu or no_cuda
    bool has_tf32 = false;  ///< what torch answers on this device
    bool compiles = false;  ///< torch_compile, also by naming its backend or mode
    bool fused = false;     ///< the optimiser is a fused kernel
    bool deepspeed = false, fsdp = false;
    int fsdp_version = 1;
    char autocast = 'F';  ///< the format of autocast: H, B, or F where there is none
    char loaded = 'F';    ///< the format that from_pretrained leaves the weights in
    std::string optimizer;
};

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

/// Reads the files that `deepspeed` and `fsdp_config` name, and fills "auto" in DeepSpeed's section from the arguments.
void prepare(ImportContext& context);

/// An argument that DeepSpeed's section has to agree with, and where it stands there.
struct SharedArgument {
    std::string_view deepspeed, argument;
};
std::span<const SharedArgument> shared_arguments();
/// What the arguments give for a path of DeepSpeed's section, as it would be written; empty where they give nothing.
std::string argument_for(const ImportContext& context, const SharedArgument& shared);

}  // namespace macheps::configs::transformers
