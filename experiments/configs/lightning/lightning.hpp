// SPDX-License-Identifier: Apache-2.0
// Shared declarations of the importer of Lightning. keys.cpp lists the keys, findings.cpp creates the findings, and
// lightning.cpp sets the fields.
#pragma once
#include "experiments/configs/framework.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace macheps::configs::lightning {

/// Key of DeepSpeed's config in the arguments of DeepSpeedStrategy.
inline constexpr std::string_view deepspeed_key = "trainer.strategy.init_args.config";

/// The kinds of strategy that differ in their numerical results.
enum class Strategy : std::uint8_t {
    replicated,      ///< one device, or DDP
    fsdp,            ///< FSDPStrategy: FSDP 1
    deepspeed,       ///< DeepSpeedStrategy
    model_parallel,  ///< ModelParallelStrategy: the program shards the model itself
    xla,             ///< strategies of TPUs
};

/// How `precision` changes the computation.
enum class Mode : std::uint8_t {
    full,    ///< 32-true
    twice,   ///< 64-true
    mixed,   ///< 16-mixed, bf16-mixed: autocast
    low,     ///< 16-true, bf16-true: the whole model is converted
    engine,  ///< transformer-engine: the model is converted, and linear layers compute in fp8
};

/// Values that Lightning derives from the config.
struct Facts {
    bool is_litgpt = false;  ///< a file of LitGPT, whose keys are at the root
    bool pretrains = false;  ///< LitGPT's pretrain, which clips gradients; its other commands do not
    std::string written;     ///< `precision` as written
    std::string precision;   ///< in today's words: "16-mixed" for 16
    Mode mode = Mode::full;
    char low = 'F';             ///< format of autocast or of the model: H, B, or F
    bool is_by_device = false;  ///< LitGPT chooses `precision` by the device
    Strategy strategy = Strategy::replicated;
    std::string strategy_name;  ///< in lower case: "fsdp", "deepspeed_stage_2", "fsdpstrategy"
    bool knows_strategy = true;
    bool on_cpu = false;
    bool clips = false, clips_by_value = false;
    std::string optimizer;  ///< name of the class; may be empty, also if the program chooses the optimiser
    bool fused = false;     ///< the optimiser has the argument fused=True
    std::string quantised;  ///< LitGPT: format of the frozen base, such as nf4; empty if it is not quantised
    bool has_lora = false;
    bool gathers_low = false;  ///< from 2.6.0 on, FSDP gathers the weights of mixed precision in the low format
    /// FSDP of 2.6.0 to 2.6.3 makes the parameters of configure_model in the low-precision format.
    bool makes_low_parameters = false;

    /// FSDP of Trainer before 2.5.0 keeps the fp32 weights of a model that configure_model does not make.
    bool keeps_fp32 = false;

    /// Returns whether the optimiser updates weights in the low-precision format.
    bool updates_low() const { return is_low() && !keeps_fp32 && strategy != Strategy::deepspeed; }
    bool is_low() const { return mode == Mode::low || mode == Mode::engine; }
};

Facts facts(const ImportContext& context);
/// Returns the maximum norm or value of gradients, or 0 if they are not clipped.
double clip_value(const ImportContext& context, const Facts& facts);

std::span<const KeyRow> keys();
std::string_view inert_keys();
void report_findings(ImportContext& context, const Facts& facts);

}  // namespace macheps::configs::lightning
