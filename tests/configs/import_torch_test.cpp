// SPDX-License-Identifier: Apache-2.0
// Tests imports of configs for plain PyTorch: FSDP's mixed precision, autocast, arguments of GradScaler, and flags of
// matmuls.
#include "tests/configs/import_case.hpp"

namespace import_torch_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

constexpr const char* v = "torch=2.9.1";

ImportResult torch(std::string_view text, const char* device = "h100") {
    return import_text(text, {.framework = "torch", .versions = v, .device = device});
}

}  // namespace

TEST_CASE("the sample config of FSDP rounds weights once, sums in fp32 and keeps fp32 buffers", "[import][torch]") {
    const ImportResult result =
        import_text("{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}}", {});
    CHECK(result.framework->name == "torch");
    CHECK_FALSE(result.refused());
    CHECK(fields_of(result, {"store", "compute", "grad", "accum", "reduce", "buffers", "opt_state"}) ==
          "store=F compute=B grad=F accum=F reduce=F buffers=F opt_state=F");
    CHECK_FALSE(find_rule(result, "torch/fsdp-low-reduce"));
}

TEST_CASE("PyTorch's arguments determine the formats and the loss scaler", "[import][torch]") {
    const auto [text, device, expected, scaler] = GENERATE(table<const char*, const char*, const char*, const char*>({
        {"{autocast: {dtype: float16}, grad_scaler: {}}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"{autocast: {}}", "h100", "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F", "none"},
        {"{autocast: {}}", "cpu", "store=F compute=B oplist=torch-cpu grad=F reduce=F buffers=F", "none"},
        {"{autocast: {device_type: cpu}}", "h100", "store=F compute=B oplist=torch-cpu grad=F reduce=F buffers=F",
         "none"},
        {"{autocast: {dtype: torch.bfloat16, enabled: false}}", "h100",
         "store=F compute=F oplist=none grad=F reduce=F buffers=F", "none"},
        {"{autocast: {dtype: float16}, fused: true, grad_scaler: {init_scale: 1024, growth_interval: 100}}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F",
         "torch init_scale=1024 growth_factor=2 backoff_factor=0.5 growth_interval=100 unscale_by_division=true"},
        {"{autocast: {dtype: float16}, grad_scaler: {enabled: false}}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F", "none"},
        {"{model_dtype: bfloat16}", "h100", "store=B compute=B oplist=none grad=B reduce=B buffers=B", "none"},
        {"{allow_tf32: true}", "a100", "store=F compute=T oplist=none grad=F reduce=F buffers=F", "none"},
        {"{float32_matmul_precision: high}", "a100", "store=F compute=T oplist=none grad=F reduce=F buffers=F", "none"},
        {"{allow_tf32: true}", "v100", "store=F compute=F oplist=none grad=F reduce=F buffers=F", "none"},
        {"{fsdp: {param_dtype: float16}, grad_scaler: {}}", "h100",
         "store=F compute=H oplist=none grad=F reduce=H buffers=F",
         "torch-sharded init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 "
         "unscale_by_division=false"},
        {"{fsdp2: {param_dtype: float16}, grad_scaler: {}}", "h100",
         "store=F compute=H oplist=none grad=F reduce=H buffers=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"{fsdp: {param_dtype: bfloat16, keep_low_precision_grads: true}}", "h100",
         "store=F compute=B oplist=none grad=B reduce=B buffers=F", "none"},
        {"{autocast: {dtype: bfloat16}, comm_hook: fp16}", "h100",
         "store=F compute=B oplist=torch-cuda grad=F reduce=H buffers=F", "none"},
    }));
    CAPTURE(text, device);
    const ImportResult result = torch(text, device);
    CHECK(fields_of(result, {"store", "compute", "oplist", "grad", "reduce", "buffers"}) == expected);
    CHECK(field_of(result, "scaler") == scaler);
}

TEST_CASE("the kernel of torch.optim depends on the device and on the arguments fused and foreach", "[import][torch]") {
    const auto [text, device, kernel] = GENERATE(table<const char*, const char*, const char*>({
        {"{model_dtype: bfloat16}", "h100", "single"},
        {"{model_dtype: bfloat16}", "cpu", "single-cpu"},
        {"{model_dtype: bfloat16, foreach: true}", "h100", "single"},
        {"{model_dtype: bfloat16, foreach: true}", "cpu", "foreach-cpu"},
        {"{model_dtype: bfloat16, foreach: false}", "cpu", "single-cpu"},
        {"{model_dtype: bfloat16, fused: true}", "h100", "fused"},
        {"{model_dtype: bfloat16, fused: true, foreach: false}", "cpu", "fused-cpu"},
    }));
    CAPTURE(text, device);
    const ImportResult result = torch(text, device);
    CAPTURE(result.policy);
    CHECK(result.policy.find(fmt::format("kernel = \"{}\"\n", kernel)) != std::string::npos);
}

TEST_CASE("each error and trap of plain PyTorch is reported if and only if it applies", "[import][torch]") {
    check_triggers(
        "torch",
        {
            {"{grad_scaler: {growth_factor: 1.0}, autocast: {dtype: float16}}", v, "h100", "torch/growth-factor", 'E',
             true, "asserted above 1"},
            {"{grad_scaler: {growth_factor: 1.1}, autocast: {dtype: float16}}", v, "h100", "torch/growth-factor", 'E',
             false, "above 1"},
            {"{grad_scaler: {backoff_factor: 1.0}, autocast: {dtype: float16}}", v, "h100", "torch/backoff-factor", 'E',
             true, "asserted below 1"},
            {"{fused: true, foreach: true}", v, "h100", "torch/fused-and-foreach", 'E', true, "both kernels at once"},
            {"{fused: true, foreach: false}", v, "h100", "torch/fused-and-foreach", 'E', false, "one of them"},
            {"{model_dtype: float16, grad_scaler: {}}", v, "h100", "torch/fp16-gradients", 'E', true,
             "unscale refuses fp16"},
            {"{model_dtype: float16}", v, "h100", "torch/fp16-gradients", 'E', false, "no scaler"},
            {"{autocast: {dtype: float16}, grad_scaler: {}, clip_grad_norm: 12}", v, "h100", "torch/clip-order", 'N',
             true, "the order of the calls is not known"},
            {"{autocast: {dtype: float16}, grad_scaler: {}}", v, "h100", "torch/clip-order", 'N', false, "no clipping"},
            {"{autocast: {dtype: bfloat16}, max_norm: 12}", v, "h100", "torch/clip-order", 'N', false, "no scaler"},
            {"{fsdp: {param_dtype: float16}, grad_scaler: {}}", v, "h100", "torch/fp16-gradients", 'E', false,
             "FSDP's scaler accepts them"},
            {"{model_dtype: bfloat16, grad_scaler: {}}", v, "h100", "torch/bf16-gradients", 'E', true,
             "no kernel on CUDA"},
            {"{model_dtype: bfloat16, grad_scaler: {}}", v, "cpu", "torch/bf16-gradients", 'E', false,
             "the CPU has one"},
            {"{fsdp: {version: 2, buffer_dtype: float32}}", v, "h100", "torch/fsdp2-argument", 'E', true,
             "no such argument"},
            {"{fsdp: {buffer_dtype: float32}}", v, "h100", "torch/fsdp2-argument", 'E', false, "FSDP 1 has it"},
            {"{fsdp: {output_dtype: float32}}", v, "h100", "torch/fsdp1-argument", 'E', true, "no such argument"},
            {"{fsdp2: {output_dtype: float32}}", v, "h100", "torch/fsdp1-argument", 'E', false, "FSDP 2 has it"},
            {"{fsdp: {param_dtyp: float32}}", v, "h100", "torch/unknown-key", 'U', true, "a TypeError"},
            {"{autocast: {dtype: float16}}", v, "h100", "torch/fp16-without-scaler", 'W', true,
             "nothing detects overflow"},
            {"{autocast: {dtype: float16}, grad_scaler: {}}", v, "h100", "torch/fp16-without-scaler", 'W', false,
             "the scaler does"},
            {"{autocast: {dtype: bfloat16}, grad_scaler: {}}", v, "h100", "torch/scaler-without-fp16", 'W', true,
             "bf16 needs no scaler"},
            {"{model_dtype: bfloat16}", v, "h100", "torch/no-master", 'W', true, "no fp32 copy"},
            {"{fsdp: {param_dtype: bfloat16}}", v, "h100", "torch/fsdp-low-reduce", 'W', true, "follows param_dtype"},
            {"{autocast: {dtype: bfloat16}}", v, "v100", "torch/bf16-emulated", 'W', true, "emulated"},
            {"{allow_tf32: true}", v, "v100", "torch/tf32-absent", 'I', true, "changes nothing"},
            {"{compile: true, allow_tf32: true}", v, "a100", "torch/torch-compile", 'W', true, "fused kernels"},
            {"{float32_matmul_precision: fast}", v, "a100", "torch/no-such-choice", 'E', true,
             "only three words are valid"},
        });
}

TEST_CASE("a config with sections for both Apex and FSDP is reported", "[import][torch]") {
    const ImportResult result = import_text(
        "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}, apex: {opt_level: O2, "
        "loss_scale: dynamic}}",
        {});
    CHECK(result.framework->name == "torch");
    CHECK(find_rule(result, "torch/two-ways", 'C'));
    CHECK_FALSE(result.refused());
}

TEST_CASE("an unknown key is not called unknown to PyTorch, because macheps has no list of its flags",
          "[import][torch]") {
    const ImportResult result = torch("{autocast: {dtype: bfloat16}, benchmark: true}");
    const Finding* found = find_rule(result, "torch/unknown-key", 'U');
    REQUIRE(found != nullptr);
    CHECK(found->message == "`benchmark` is not in macheps's tables for PyTorch 2.9.1, which do not list every key");
    // An argument of a Python call is different: the call raises TypeError.
    const ImportResult call = torch("{autocast: {dtype: bfloat16, benchmark: true}}");
    found = find_rule(call, "torch/unknown-key", 'U');
    REQUIRE(found != nullptr);
    CHECK(found->message == "PyTorch 2.9.1 does not know `autocast.benchmark`, and refuses the config");
}

TEST_CASE("fp32_precision is a key since PyTorch 2.9, and turns tf32 on", "[import][torch]") {
    CHECK_FALSE(find_rule(torch("{allow_tf32: true, fp32_precision: ieee}"), "torch/unknown-key"));
    CHECK(field_of(torch("{fp32_precision: tf32}"), "compute") == "T");
    CHECK(field_of(torch("{fp32_precision: ieee}"), "compute") == "F");
    CHECK(field_of(torch("{fp32_precision: tf32}", "v100"), "compute") == "F");
    CHECK(find_rule(torch("{fp32_precision: tf32}", "v100"), "torch/tf32-absent", 'I'));
}

}  // namespace import_torch_test
