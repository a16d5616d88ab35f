// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the Transformers importer. keys.cpp lists the keys, findings.cpp creates the findings, and
// transformers.cpp sets the fields.
#pragma once
#include "experiments/configs/finding_row.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"

#include <span>
#include <string>

namespace macheps::configs::transformers {

/// Values that TrainingArguments and the Trainer derive from the arguments.
struct Facts {
    bool fp16 = false, bf16 = false;
    bool from_environment = false;  ///< neither flag is set, but ACCELERATE_MIXED_PRECISION requests fp16 or bf16
    bool apex = false;
    bool on_cpu = false;    ///< use_cpu, no_cuda, or a device that is a CPU
    bool says_cpu = false;  ///< use_cpu or no_cuda
    bool has_tf32 = false;  ///< torch supports tf32 on this device
    bool compiles = false;  ///< torch_compile is set, or a key that implies it, such as its backend
    bool fused = false;     ///< the optimiser is a fused kernel
    bool deepspeed = false, fsdp = false;
    int fsdp_version = 1;
    char autocast = 'F';                      ///< format of autocast: H, B, or F if autocast is off
    bool loads_stored = false;                ///< from_pretrained loads the weights as they are stored
    char loaded = 'F';                        ///< format of the weights after from_pretrained
    std::string_view load_key{};              ///< the key of the script that sets `loaded`; empty if there is none
    const OptimiserRow* optimiser = nullptr;  ///< null if the name is unknown
};

Facts facts(const ImportContext& context);
/// Returns the name of the optimiser: the value of `optim` or its default. The importers of LLaMA-Factory and TRL also
/// call this function, because their configs contain the key.
std::string optimiser_name(const ImportContext& context);
/// Returns settings without bf16 that this device supports. They turn fp16 on if the config should train in fp16
/// (training_format.hpp) and the weights are loaded in fp32.
std::string without_bf16(const ImportContext& context, const Facts& facts);
std::span<const KeyRow> keys();
/// Names of arguments of scripts that do not affect numerical results.
extern const std::string_view script_key_names;
/// Arguments of Seq2SeqTrainingArguments that TrainingArguments does not have. TRL's classes derive from
/// TrainingArguments. Source: training_args_seq2seq.py of 4.38.0 to 5.24.0.
inline constexpr std::string_view seq2seq_key_names =
    "predict_with_generate generation_max_length generation_num_beams generation_config sortish_sampler";
void report_findings(ImportContext& context, const Facts& facts);

/// The argument that leaves NaN and Inf losses out of the logged loss. It is on by default.
inline constexpr std::string_view nan_filter_key = "logging_nan_inf_filter";
/// Returns the finding that the argument is on.
FindingText nan_filter_text();

/// Reads the files that `deepspeed` and `fsdp_config` name. Replaces the "auto" values of DeepSpeed's section by values
/// from the arguments.
void prepare(ImportContext& context);

/// Gives DeepSpeed's section the number of micro-batches in the arguments if the section has none. The Trainer then
/// still accumulates this number of micro-batches. For arguments of Transformers and for Axolotl.
void fill_micro_batches(ImportContext& context);

/// An argument that must agree with a value in DeepSpeed's section, and the path of this value in the section.
struct SharedArgument {
    std::string_view deepspeed, argument;
};
std::span<const SharedArgument> shared_arguments();
/// Returns the value, as a config file spells it, that DeepSpeed's section must have at the path `shared.deepspeed` to
/// agree with the arguments. Returns an empty text if the arguments allow any value.
std::string argument_for(const ImportContext& context, const SharedArgument& shared);

}  // namespace macheps::configs::transformers
