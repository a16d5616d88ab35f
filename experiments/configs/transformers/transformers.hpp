// SPDX-License-Identifier: Apache-2.0
// Values that Transformers derives from TrainingArguments, for the files of its importer and for frameworks that pass
// their own arguments on to it.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>

namespace macheps::configs::transformers {

/// Values that TrainingArguments and the Trainer derive from the arguments.
struct Facts {
    bool fp16 = false, bf16 = false;
    bool from_environment = false;  ///< neither flag is set, but ACCELERATE_MIXED_PRECISION asks for fp16 or bf16
    bool apex = false;
    bool on_cpu = false;    ///< use_cpu, no_cuda, or a device that is a CPU
    bool says_cpu = false;  ///< use_cpu or no_cuda
    bool has_tf32 = false;  ///< torch supports tf32 on this device
    bool compiles = false;  ///< torch_compile is on, possibly because its backend or mode is named
    bool fused = false;     ///< the optimiser is a fused kernel
    bool deepspeed = false, fsdp = false;
    int fsdp_version = 1;
    char autocast = 'F';  ///< format of autocast: H, B, or F without autocast
    char loaded = 'F';    ///< format of the weights after from_pretrained
    std::string optimizer;
};

Facts facts(const ImportContext& context);
std::span<const KeyRow> keys();
void report_findings(ImportContext& context, const Facts& facts);

/// Reads the files that `deepspeed` and `fsdp_config` name, and fills "auto" in DeepSpeed's section from the arguments.
void prepare(ImportContext& context);

/// An argument with which DeepSpeed's section has to agree, and its path in that section.
struct SharedArgument {
    std::string_view deepspeed, argument;
};
std::span<const SharedArgument> shared_arguments();
/// Returns the value that the arguments give for a path of DeepSpeed's section, as a file would contain it, or an empty
/// text if there is none.
std::string argument_for(const ImportContext& context, const SharedArgument& shared);

}  // namespace macheps::configs::transformers
