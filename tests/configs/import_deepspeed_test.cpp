// SPDX-License-Identifier: Apache-2.0
// Tests imports of DeepSpeed's JSON config: the formats and the loss scaler that DeepSpeed's engine uses for each ZeRO
// stage and version, the configs that violate each of DeepSpeed's assertions, and the configs that fall into each known
// trap. The expected values are those of deepspeed.initialize in 0.16.5 and 0.19.6.
#include "tests/configs/import_case.hpp"

namespace import_deepspeed_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

const std::vector<std::string_view> storage_fields{"store", "compute", "master",    "grad",
                                                   "accum", "reduce",  "opt_state", "norm"};

ImportResult deepspeed(std::string_view text, const char* version = "0.19.6", const char* device = "h100") {
    return import_text(text,
                       {.framework = "deepspeed", .versions = std::string("deepspeed=") + version, .device = device});
}

constexpr const char* v5 = "deepspeed=0.16.5";
constexpr const char* v1 = "deepspeed=0.17.1";
constexpr const char* v6 = "deepspeed=0.19.6";

}  // namespace

TEST_CASE("the sample config with fp16 and ZeRO 2 resolves to the formats that DeepSpeed's engine uses",
          "[import][deepspeed]") {
    const ImportResult result = import_text(
        R"({"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 1000, "hysteresis": 2,
        "min_loss_scale": 1}, "zero_optimization": {"stage": 2}, "communication_data_type": "fp32",
        "data_types": {"grad_accum_dtype": "fp32"}, "gradient_clipping": 1.0, "train_micro_batch_size_per_gpu": 2})",
        {});
    CHECK(result.framework->name == "deepspeed");  // recognised by its keys
    CHECK_FALSE(result.refused());
    CHECK(fields_of(result, storage_fields) == "store=H compute=H master=F grad=H accum=F reduce=F opt_state=F norm=H");
    CHECK(field_of(result, "scaler") ==
          "ds-zero init_scale=65536 growth_interval=1000 hysteresis=2 consecutive_hysteresis=false min_scale=1 "
          "version=0.19.8 growth_step_half_grad=true");
    CHECK(field_of(result, "clip") == "deepspeed max=1");
    CHECK(result.resolved.find("accum")->origin == Origin::file);
    CHECK(result.resolved.find("store")->origin == Origin::inferred);
    CHECK_FALSE(result.policy.empty());
}

TEST_CASE("DeepSpeed's mode decides the formats of weights and gradients", "[import][deepspeed]") {
    struct Row {
        const char *text, *version, *expected, *why;
    };
    const auto [text, version, expected, why] = GENERATE(table<const char*, const char*, const char*, const char*>({
        {R"({"train_batch_size": 8})", "0.19.6",
         "store=F compute=F master=none grad=F accum=F reduce=F opt_state=F norm=F", "fp32 without a switch"},
        {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})", "0.16.5",
         "store=H compute=H master=F grad=H accum=H reduce=H opt_state=F norm=H", "fp16"},
        {R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})", "0.19.6",
         "store=B compute=B master=F grad=B accum=B reduce=B opt_state=F norm=B", "bf16 with ZeRO"},
        {R"({"bfloat16": {"enabled": true}, "zero_optimization": {"stage": 3}})", "0.16.5",
         "store=B compute=B master=F grad=B accum=B reduce=B opt_state=F norm=B", "the old name"},
        {R"({"bf16": {"enabled": true}})", "0.16.5",
         "store=B compute=B master=F grad=B accum=F reduce=F opt_state=F norm=B", "BF16_Optimizer sums in fp32"},
        {R"({"bf16": {"enabled": true}})", "0.17.1",
         "store=B compute=B master=F grad=B accum=F reduce=F opt_state=F norm=B", "still in 0.17.1"},
        {R"({"bf16": {"enabled": true}})", "0.17.6",
         "store=B compute=B master=F grad=B accum=B reduce=B opt_state=F norm=B", "the model's format from 0.17.6"},
        {R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1}})",
         "0.19.6", "store=B compute=B master=F grad=B accum=F reduce=F opt_state=F norm=B",
         "ZeRO 1 with fp32 sums is BF16_Optimizer"},
        {R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}})",
         "0.19.6", "store=B compute=B master=F grad=B accum=F reduce=B opt_state=F norm=B",
         "not with the optimiser on the CPU"},
        {R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}, "zero_optimization": {"stage": 2}})",
         "0.19.6", "store=B compute=B master=B grad=B accum=B reduce=B opt_state=B norm=B", "bf16 masters and states"},
        {R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})",
         "0.16.5", "store=H compute=H master=H grad=H accum=H reduce=H opt_state=H norm=H", "fp16 masters"},
        {R"({"torch_autocast": {"enabled": true, "dtype": "bfloat16"}})", "0.19.6",
         "store=F compute=B master=none grad=F accum=F reduce=B opt_state=F norm=F", "its own autocast"},
        {R"({"amp": {"enabled": true, "opt_level": "O2"}})", "0.19.6",
         "store=H compute=H master=F grad=H accum=F reduce=F opt_state=F norm=H", "Apex"},
    }));
    CAPTURE(text, version, why);
    CHECK(fields_of(deepspeed(text, version), storage_fields) == expected);
}

TEST_CASE("the kind and the initial scale of DeepSpeed's scaler depend on stage, optimiser and version",
          "[import][deepspeed]") {
    const auto [text, version, expected, why] = GENERATE(table<const char*, const char*, const char*, const char*>({
        {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})", "0.16.5",
         "ds-zero init_scale=4294967296 growth_interval=1000 hysteresis=1 consecutive_hysteresis=false min_scale=1 "
         "version=0.16.5 growth_step_half_grad=true",
         "the trap: 2^32, hysteresis 1"},
        {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})", "0.17.1",
         "ds-zero init_scale=65536 growth_interval=1000 hysteresis=2 consecutive_hysteresis=false min_scale=1 "
         "version=0.17.1 growth_step_half_grad=true",
         "no trap since 0.17.1"},
        {R"({"fp16": {"enabled": true, "min_loss_scale": 2}, "zero_optimization": {"stage": 1}})", "0.16.5",
         "ds-zero init_scale=65536 growth_interval=1000 hysteresis=2 consecutive_hysteresis=false min_scale=2 "
         "version=0.16.5 growth_step_half_grad=true",
         "one key of five is enough"},
        {R"({"fp16": {"enabled": true, "loss_scale": 0}, "zero_optimization": {"stage": 1}})", "0.16.5",
         "ds-zero init_scale=4294967296 growth_interval=1000 hysteresis=1 consecutive_hysteresis=false min_scale=1 "
         "version=0.16.5 growth_step_half_grad=true",
         "loss_scale is not one of the five"},
        {R"({"fp16": {"enabled": true}, "optimizer": {"type": "Adam", "params": {}}})", "0.16.5",
         "ds-fused init_scale=65536 growth_interval=1000 min_scale=1 version=0.16.5 growth_step_half_grad=true",
         "fused at stage 0"},
        {R"({"fp16": {"enabled": true}, "optimizer": {"type": "Lamb", "params": {}}})", "0.16.5",
         "ds-fused init_scale=65536 growth_interval=1000 min_scale=0.25 version=0.16.5 growth_step_half_grad=true",
         "unfused: floor 0.25"},
        {R"({"fp16": {"enabled": true}, "optimizer": {"type": "Adam", "params": {"torch_adam": true}}})", "0.16.5",
         "ds-fused init_scale=65536 growth_interval=1000 min_scale=0.25 version=0.16.5 growth_step_half_grad=true",
         "torch's Adam is unfused"},
        {R"({"fp16": {"enabled": true}, "optimizer": {"type": "Lamb", "params": {}}})", "0.19.6",
         "ds-fused init_scale=65536 growth_interval=1000 min_scale=1 version=0.19.6 growth_step_half_grad=true",
         "no trap"},
        {R"({"fp16": {"enabled": true, "initial_scale_power": 8, "loss_scale_window": 50, "hysteresis": 4, "consecutive_hysteresis": true}, "zero_optimization": {"stage": 3}})",
         "0.19.6",
         "ds-zero init_scale=256 growth_interval=50 hysteresis=4 consecutive_hysteresis=true min_scale=1 "
         "version=0.19.6 growth_step_half_grad=true",
         "every key"},
        {R"({"fp16": {"enabled": true, "loss_scale": 128}, "zero_optimization": {"stage": 2}})", "0.19.6",
         "static init_scale=128 skip=true unscale_by_division=false", "static"},
        {R"({"fp16": {"enabled": true, "loss_scale": true}, "zero_optimization": {"stage": 2}})", "0.16.5",
         "static init_scale=1 skip=true unscale_by_division=false", "true is 1 to Python"},
        {R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})", "0.17.1", "none",
         "bf16 before the check was on"},
        {R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})", "0.19.3",
         "static init_scale=1 skip=true unscale_by_division=false", "scale 1, and a step with NaN is skipped"},
        {R"({"bf16": {"enabled": true, "check_grad_overflow": true}, "zero_optimization": {"stage": 2}})", "0.17.1",
         "static init_scale=1 skip=true unscale_by_division=false", "the check is requested"},
        {R"({"torch_autocast": {"enabled": true, "dtype": "float16"}})", "0.19.6",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false",
         "a plain GradScaler"},
        {R"({"amp": {"enabled": true}})", "0.19.6",
         "apex init_scale=65536 growth_interval=2000 min_scale=0 max_scale=16777216", "Apex's own"},
        {R"({"train_batch_size": 8})", "0.19.6", "none", "fp32"},
    }));
    CAPTURE(text, version, why);
    CHECK(field_of(deepspeed(text, version), "scaler") == expected);
}

TEST_CASE("DeepSpeed's clipping, buffers and reduction depend on the version", "[import][deepspeed]") {
    const char* fp16 = R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})";
    CHECK(field_of(deepspeed(fp16, "0.16.5"), "clip") == "none");
    CHECK(field_of(deepspeed(fp16, "0.19.2"), "clip") == "none");
    CHECK(field_of(deepspeed(fp16, "0.19.3"), "clip") == "deepspeed max=1");
    CHECK(field_of(deepspeed(R"({"bf16": {"enabled": true}, "gradient_clipping": 0.5})", "0.16.5"), "clip") ==
          "deepspeed-bf16 max=0.5");
    CHECK(field_of(deepspeed(fp16, "0.19.1"), "buffers") == "H");
    CHECK(field_of(deepspeed(fp16, "0.19.2"), "buffers") == "F");
    CHECK(field_of(deepspeed(R"({"fp16": {"enabled": true}, "data_types": {"buffer_dtype": "fp16"}})"), "buffers") ==
          "H");
    CHECK(field_of(deepspeed(fp16), "predivide") == "postscale factor=1");
    CHECK(field_of(
              deepspeed(R"({"fp16": {"enabled": true}, "prescale_gradients": true, "gradient_predivide_factor": 4})"),
              "predivide") == "prescale factor=4");
    CHECK(field_of(deepspeed(R"({"fp16": {"enabled": true}, "communication_data_type": "BF16"})"), "reduce") == "B");
}

TEST_CASE(
    "an \"auto\" that no trainer replaces means false from DeepSpeed 0.17.1 on and true before, and is not an error",
    "[import][deepspeed]") {
    const char* text =
        R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto", "train_batch_size": "auto"})";
    const ImportResult now = deepspeed(text);
    CHECK(field_of(now, "compute") == "F");
    CHECK_FALSE(now.refused());
    REQUIRE(find_rule(now, "deepspeed/auto", 'N'));
    CHECK(find_rule(now, "deepspeed/auto", 'N')->message.find("fp16_full_eval") != std::string::npos);
    CHECK_FALSE(find_rule(now, "deepspeed/auto-is-true"));
    const ImportResult then = deepspeed(text, "0.16.5");
    CHECK_FALSE(then.refused());
    CHECK(field_of(then, "compute") == "H");
    REQUIRE(find_rule(then, "deepspeed/auto-is-true", 'W'));
    CHECK(find_rule(then, "deepspeed/auto", 'N'));
    CHECK(field_of(deepspeed(R"({"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 1}})", "0.16.5"),
                   "compute") == "B");
}

TEST_CASE("each assertion and trap of DeepSpeed is reported if and only if it applies", "[import][deepspeed]") {
    check_triggers(
        "deepspeed",
        {
            {R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})", v6, "h100", "deepspeed/fp16-and-bf16", 'E',
             true, "both"},
            {R"({"fp16": {"enabled": true}, "bf16": {"enabled": false}})", v6, "h100", "deepspeed/fp16-and-bf16", 'E',
             false, "one"},
            {R"({"fp16": true})", v6, "h100", "deepspeed/wrong-type", 'E', true, "a section is a map"},
            {R"({"fp16": {"enabled": true}})", v6, "h100", "deepspeed/wrong-type", 'E', false, "it is a map"},
            {R"({"fp16": {"enabled": true}})", v6, "cpu", "deepspeed/fp16-unsupported", 'E', true, "no fp16 on a CPU"},
            {R"({"bf16": {"enabled": true}})", v6, "cpu", "deepspeed/bf16-unsupported", 'E', false, "a CPU has bf16"},
            {R"({"bf16": {"enabled": true}})", v6, "v100", "deepspeed/bf16-emulated", 'W', true,
             "torch counts emulation"},
            {R"({"bf16": {"enabled": true}})", v6, "a100", "deepspeed/bf16-emulated", 'W', false, "native"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})", v5, "h100",
             "deepspeed/initial-scale-trap", 'W', true, "no key of five"},
            {R"({"fp16": {"enabled": true, "hysteresis": 2}, "zero_optimization": {"stage": 1}})", v5, "h100",
             "deepspeed/initial-scale-trap", 'W', false, "one key"},
            {R"({"fp16": {"enabled": true, "loss_scale": 64}, "zero_optimization": {"stage": 1}})", v5, "h100",
             "deepspeed/initial-scale-trap", 'W', false, "static"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})", v1, "h100",
             "deepspeed/initial-scale-trap", 'W', false, "fixed in 0.17.1"},
            {R"({"fp16": {"enabled": true}, "optimizer": {"type": "Adam"}})", v5, "h100",
             "deepspeed/initial-scale-trap", 'W', false, "fused: 2^16, floor 1"},
            {R"({"fp16": {"enabled": true}, "optimizer": {"type": "Lamb"}})", v5, "h100",
             "deepspeed/initial-scale-trap", 'W', true, "unfused: floor 0.25"},
            {R"({"fp16": {"enabled": true, "initial_scale_power": 32}, "zero_optimization": {"stage": 1}})", v6, "h100",
             "deepspeed/large-initial-scale", 'W', true, "2^32"},
            {R"({"fp16": {"enabled": true, "initial_scale_power": 21}})", v5, "h100", "deepspeed/large-initial-scale",
             'W', true, "without ZeRO"},
            {R"({"fp16": {"enabled": true, "initial_scale_power": 20}})", v6, "h100", "deepspeed/large-initial-scale",
             'W', false, "not above 2^20"},
            {R"({"fp16": {"enabled": true, "loss_scale": 64, "initial_scale_power": 32}})", v6, "h100",
             "deepspeed/large-initial-scale", 'W', false, "static"},
            {R"({"fp16": {"enabled": false, "initial_scale_power": 32}})", v6, "h100", "deepspeed/large-initial-scale",
             'W', false, "fp16 is off"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})", v5, "h100",
             "deepspeed/large-initial-scale", 'W', false, "initial-scale-trap says it"},
            {R"({"fp16": {"enabled": true, "hysteresis": 0}, "zero_optimization": {"stage": 2}})", v6, "h100",
             "deepspeed/hysteresis-zero", 'W', true, "never backs off"},
            {R"({"fp16": {"enabled": true, "hysteresis": 1}, "zero_optimization": {"stage": 2}})", v6, "h100",
             "deepspeed/hysteresis-zero", 'W', false, "1 backs off"},
            {R"({"fp16": {"enabled": true, "hysteresis": 0}})", v6, "h100", "deepspeed/hysteresis-zero", 'W', false,
             "not read without ZeRO"},
            {R"({"fp16": {"enabled": true, "hysteresis": 0}})", v6, "h100", "deepspeed/hysteresis-unread", 'I', true,
             "and it is reported"},
            {R"({"fp16": {"enabled": true, "loss_scale": true}})", "deepspeed=0.18.8", "h100", "deepspeed/loss-scale",
             'E', true, "a boolean, from 0.18.8"},
            {R"({"fp16": {"enabled": true, "loss_scale": true}})", v5, "h100", "deepspeed/loss-scale", 'E', false,
             "1 before"},
            {R"({"fp16": {"enabled": true, "loss_scale": true}})", v5, "h100", "deepspeed/loss-scale-boolean", 'W',
             true, "and it is reported"},
            {R"({"fp16": {"enabled": true, "loss_scale": -2}})", v6, "h100", "deepspeed/loss-scale", 'E', true,
             "negative"},
            {R"({"fp16": {"enabled": true, "loss_scale": -2}})", v5, "h100", "deepspeed/loss-scale", 'E', false,
             "not checked in 0.16.5"},
            {R"({"fp16": {"enabled": true, "loss_scale": 0}})", v6, "h100", "deepspeed/loss-scale", 'E', false,
             "dynamic"},
            {R"({"fp16": {"enabled": true, "loss_scale_window": 0}})", v6, "h100", "deepspeed/loss-scale-window", 'E',
             true, "a window of 0"},
            {R"({"fp16": {"enabled": true, "loss_scale": 2, "loss_scale_window": 0}})", v6, "h100",
             "deepspeed/loss-scale-window", 'E', false, "not used when static"},
            {R"({"fp16": {"enabled": true, "min_loss_scale": 0}})", v6, "h100", "deepspeed/min-loss-scale", 'E', true,
             "a floor of 0"},
            {R"({"fp16": {"enabled": true, "min_loss_scale": 0}})", v5, "h100", "deepspeed/min-loss-scale", 'E', false,
             "was accepted"},
            {R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 2}})",
             v5, "h100", "deepspeed/fp16-masters", 'E', true, "requires Adam on the CPU"},
            {R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})",
             v5, "h100", "deepspeed/fp16-masters", 'E', false, "Adam is on the CPU"},
            {R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 3}})",
             v6, "h100", "deepspeed/fp16-masters", 'E', false, "stages 1 to 3"},
            {R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}})", v6, "h100",
             "deepspeed/fp16-masters", 'E', true, "not without ZeRO"},
            {R"({"fp16": {"enabled": false, "fp16_master_weights_and_grads": true}})", v6, "h100",
             "deepspeed/fp16-masters", 'E', true, "asserted even if fp16 is off"},
            {R"({"fp16": {"enabled": false, "fp16_master_weights_and_grads": true}})", v5, "h100",
             "deepspeed/fp16-masters", 'E', false, "not read then in 0.16.5"},
            {R"({"bf16": {"enabled": true, "bf16_optimizer_states": true}, "zero_optimization": {"stage": 1}})", v6,
             "h100", "deepspeed/bf16-masters", 'E', true, "states without masters"},
            {R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1}})",
             v6, "h100", "deepspeed/bf16-masters", 'E', false, "masters alone"},
            {R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}})", v6, "h100",
             "deepspeed/bf16-masters", 'E', true, "without ZeRO"},
            {R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", v6, "h100",
             "deepspeed/nan-reaches-weights", 'W', false, "checked since 0.19.3"},
            {R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", v6, "h100", "deepspeed/silent-skip",
             'N', true, "and skipped silently"},
            {R"({"bf16": {"enabled": true}})", v6, "h100", "deepspeed/nan-reaches-weights", 'W', true,
             "the wrapper of fused Adam does not check"},
            {R"({"bf16": {"enabled": true}})", "deepspeed=0.19.8", "h100", "deepspeed/nan-reaches-weights", 'W', false,
             "it checks from 0.19.8 on"},
            {R"({"bf16": {"enabled": true}, "optimizer": {"type": "SGD"}})", v6, "h100",
             "deepspeed/nan-reaches-weights", 'W', false, "the wrapper that is not fused checks"},
            {R"({"bf16": {"enabled": true}})", "deepspeed=0.19.2", "h100", "deepspeed/nan-reaches-weights", 'W', true,
             "off before 0.19.3"},
            {R"({"bf16": {"enabled": true}})", v5, "h100", "deepspeed/nan-reaches-weights", 'W', true, "no such check"},
            {R"({"bf16": {"enabled": true, "check_grad_overflow": false}})", v6, "h100",
             "deepspeed/nan-reaches-weights", 'W', true, "switched off"},
            {R"({"bf16": {"enabled": true, "check_grad_overflow": true}})", v5, "h100",
             "deepspeed/key-of-other-version", 'U', true, "unknown in 0.16.5"},
            {R"({"fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "int4"}})", v6, "h100",
             "deepspeed/accumulation-dtype", 'E', true, "not a dtype"},
            {R"({"fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", v6, "h100",
             "deepspeed/accumulation-mix", 'E', true, "H+F without ZeRO"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "fp32"}})",
             v6, "h100", "deepspeed/accumulation-mix", 'E', false, "with ZeRO"},
            {R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"}})", v5, "h100",
             "deepspeed/accumulation-mix", 'E', true, "B+B in 0.16.5"},
            {R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"}})", "deepspeed=0.17.6", "h100",
             "deepspeed/accumulation-mix", 'E', false, "B+B from 0.17.6"},
            {R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", v5, "h100",
             "deepspeed/accumulation-mix", 'E', false, "B+F in 0.16.5"},
            {R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", v6, "h100",
             "deepspeed/accumulation-mix", 'E', true, "B+F in 0.19.6"},
            {R"({"bf16": {"enabled": true}})", v6, "h100", "deepspeed/accumulation-mix", 'E', false, "its default"},
            {R"({"fp16": {"enabled": true}, "communication_data_type": "float32"})", v6, "h100",
             "deepspeed/communication-dtype", 'E', true, "three names only"},
            {R"({"fp16": {"enabled": true}, "communication_data_type": "fp32"})", v6, "h100",
             "deepspeed/communication-dtype", 'E', false, "one of them"},
            {R"({"fp16": {"enabled": true}, "seq_parallel_communication_data_type": "half"})", v6, "h100",
             "deepspeed/sequence-communication-dtype", 'E', true, "three names only as well"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}, "gradient_predivide_factor": 2})", v6,
             "h100", "deepspeed/predivide-with-reduce-scatter", 'E', true, "factor with ZeRO 2"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 3}, "prescale_gradients": true})", v5,
             "h100", "deepspeed/predivide-with-reduce-scatter", 'E', true, "prescale with ZeRO 3"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_scatter": false}, "prescale_gradients": true})",
             v6, "h100", "deepspeed/predivide-with-reduce-scatter", 'E', false, "no scatter"},
            {R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}, "prescale_gradients": true})", v6,
             "h100", "deepspeed/predivide-with-reduce-scatter", 'E', false, "ZeRO 1"},
            {R"({"torch_autocast": {"enabled": true, "dtype": "bfloat16"}})", v6, "h100", "deepspeed/outer-autocast",
             'C', true, "its section wins"},
            {R"({"torch_autocast": {"enabled": false}, "bf16": {"enabled": true}})", v6, "h100",
             "deepspeed/outer-autocast", 'W', true, "outer regions are switched off"},
            {R"({"bf16": {"enabled": true}})", v6, "h100", "deepspeed/outer-autocast", 'W', false, "no section"},
            {R"({"torch_autocast": {"enabled": true}})", v1, "h100", "deepspeed/key-of-other-version", 'U', true,
             "came with 0.17.2"},
            {R"({"torch_autocast": {"enabled": true, "dtype": "float16"}})", v6, "h100", "deepspeed/autocast-scaler",
             'N', true, "a plain GradScaler"},
            {R"({"amp": {"enabled": true}, "zero_optimization": {"stage": 1}})", v6, "h100", "deepspeed/amp-with-zero",
             'E', true, "asserted"},
            {R"({"amp": {"enabled": true}, "fp16": {"enabled": true}})", v6, "h100", "deepspeed/amp-with-half", 'E',
             true, "asserted"},
            {R"({"amp": {"enabled": false}, "fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})", v6, "h100",
             "deepspeed/amp-with-zero", 'E', false, "off"},
            {R"({"optimizer": {"type": "Adam", "params": {"lr": 1, "max_grad_norm": 1.0}}})", v5, "h100",
             "deepspeed/max-grad-norm", 'E', true, "the engine raises"},
            {R"({"optimizer": {"type": "Adam", "params": {"lr": 1}}})", v5, "h100", "deepspeed/max-grad-norm", 'E',
             false, "absent"},
            {R"({"vocabulary_size": 50257})", v6, "h100", "deepspeed/vocabulary", 'W', true, "not a multiple of 8"},
            {R"({"vocabulary_size": 50304})", v6, "h100", "deepspeed/vocabulary", 'W', false, "a multiple"},
            {R"({"optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 128}})", v6, "h100",
             "deepspeed/lamb-static-scale", 'E', true, "asserted"},
            {R"({"optimizer": {"type": "Lamb"}, "fp16": {"enabled": true}})", v6, "h100", "deepspeed/lamb-static-scale",
             'E', false, "dynamic"},
            {R"({"fp16": {"enabled": true}})", "deepspeed=0.19.1", "h100", "deepspeed/buffers-cast", 'W', true,
             "buffers are cast as well"},
            {R"({"fp16": {"enabled": true}})", "deepspeed=0.19.2", "h100", "deepspeed/buffers-cast", 'W', false,
             "not cast since 0.19.2"},
            {R"({"fp16": {"enabled": true, "hystersis": 2}})", v6, "h100", "deepspeed/unknown-key", 'U', true,
             "a misspelt key"},
        });
}

TEST_CASE("an unknown key of DeepSpeed is an error only in sections that it checks", "[import][deepspeed]") {
    const auto [text, version, refuses] = GENERATE(table<const char*, const char*, bool>({
        {R"({"fp16": {"enabled": true, "hystersis": 2}})", "0.16.5", false},
        {R"({"fp16": {"enabled": true, "hystersis": 2}})", "0.17.1", true},
        {R"({"zero_optimization": {"stage": 2, "stge": 1}})", "0.16.5", true},
        {R"({"zero_optimization": {"stage": 2}, "zero_optimisation": {"stage": 1}})", "0.19.6", false},
    }));
    CAPTURE(text, version);
    const ImportResult result = deepspeed(text, version);
    REQUIRE(find_rule(result, "deepspeed/unknown-key", 'U'));
    CHECK(find_rule(result, "deepspeed/unknown-key")->framework_refuses == refuses);
    CHECK(result.refused() == refuses);
}

TEST_CASE("a quoted false switches fp16 on in DeepSpeed versions without typed sections", "[import][deepspeed]") {
    const char* text = R"({"fp16": {"enabled": "false"}, "zero_optimization": {"stage": 1}})";
    CHECK(field_of(deepspeed(text, "0.16.5"), "compute") == "H");
    CHECK(find_rule(deepspeed(text, "0.16.5"), "deepspeed/quoted-boolean", 'W'));
    CHECK(field_of(deepspeed(text, "0.19.6"), "compute") == "F");
    CHECK_FALSE(find_rule(deepspeed(text, "0.19.6"), "deepspeed/quoted-boolean"));
}

TEST_CASE("a finding about a DeepSpeed mode gives the position of the switch that enables the mode",
          "[import][deepspeed]") {
    const ImportResult result = deepspeed("{\"zero_optimization\": {\"stage\": 1},\n \"bf16\": {\"enabled\": true}}");
    const Finding* cast = find_rule(result, "deepspeed/whole-model-cast", 'N');
    REQUIRE(cast);
    CHECK(cast->key == "bf16.enabled");
    CHECK(cast->place.line == 2);
    CHECK(cast->place.column == 11);
}

TEST_CASE("the advice about sums in bf16 is a setting that the release reads", "[import][deepspeed]") {
    struct Case {
        const char *version, *stage, *advice;
    };
    const Case cases[] = {
        {"0.19.8", "0", R"("data_types": {"grad_accum_dtype": "fp32"} with "zero_optimization": {"stage": 1})"},
        {"0.19.8", "1", R"("data_types": {"grad_accum_dtype": "fp32"})"},
        {"0.19.8", "2", R"("data_types": {"grad_accum_dtype": "fp32"})"},
        {"0.18.4", "1", R"(deepspeed 0.18.5 or newer, and "data_types": {"grad_accum_dtype": "fp32"})"},
        {"0.18.4", "2", R"("data_types": {"grad_accum_dtype": "fp32"})"},
        {"0.17.5", "1", R"("data_types": {"grad_accum_dtype": "fp32"})"},
    };
    for (const Case& one : cases) {
        const ImportResult result = deepspeed(
            fmt::format(
                R"({{"bf16": {{"enabled": true}}, "gradient_accumulation_steps": 8, "zero_optimization": {{"stage": {}}}}})",
                one.stage),
            one.version);
        const Finding* found = find_rule(result, "deepspeed/low-accumulation", 'W');
        CAPTURE(one.version, one.stage);
        REQUIRE(found != nullptr);
        CHECK(found->instead == one.advice);
    }
}

}  // namespace import_deepspeed_test
