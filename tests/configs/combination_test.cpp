// SPDX-License-Identifier: Apache-2.0
// Tests keys whose effect depends on other keys: the format of the model under FSDP, whole modules next to adapters,
// adapters in a low-precision format, Adam's eps in fp16, and the precision of a run on DeepSpeed.
#include "core/error.hpp"
#include "experiments/configs/memory/memory_recipe.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "tests/configs/import_case.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace combination_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

/// The releases whose sources these tests quote.
constexpr const char* versions =
    "torch=2.9.1,deepspeed=0.19.6,transformers=5.14.1,accelerate=1.14.0,axolotl=0.18.0,llamafactory=0.9.5";

ImportResult import_of(const char* framework, const std::string& text, const char* checkpoint = "fp32") {
    return import_text(text, {.framework = framework, .versions = versions, .checkpoint = checkpoint});
}

/// Returns the messages of all findings with the code and the rule.
std::string said(const ImportResult& result, const char* rule, char code) {
    const Finding* found = find_rule(result, rule, code);
    return found == nullptr ? "" : found->message;
}

}  // namespace

TEST_CASE("FSDP keeps shards, gradients and moments in the format that the model has when it is wrapped",
          "[import][torch]") {
    struct Case {
        const char *text, *fields;
        bool warns;
        const char* why;
    };
    constexpr Case cases[] = {
        {"{model_dtype: bfloat16, fsdp: {version: 2, param_dtype: bfloat16, reduce_dtype: float32}}",
         "store=B compute=B grad=B accum=B reduce=F opt_state=B embed=B", true,
         "torch 2.9.1: shard and exp_avg are bf16"},
        {"{model_dtype: bfloat16, fsdp: {version: 1, param_dtype: bfloat16, reduce_dtype: float32}}",
         "store=B compute=B grad=B accum=B reduce=F opt_state=B embed=B", true, "the same with FSDP 1"},
        {"{model_dtype: bfloat16, fsdp: {version: 2}}", "store=B compute=B grad=B accum=B reduce=B opt_state=B embed=B",
         true, "no param_dtype: nothing is cast"},
        {"{model_dtype: bfloat16, fsdp: {version: 2, param_dtype: float32}}",
         "store=B compute=F grad=B accum=B reduce=F opt_state=B embed=F", true, "gathered in fp32"},
        {"{fsdp: {version: 2, param_dtype: bfloat16, reduce_dtype: float32}}",
         "store=F compute=B grad=F accum=F reduce=F opt_state=F embed=B", false, "an fp32 model"},
        {"{fsdp: {version: 2}, autocast: {dtype: bfloat16}}",
         "store=F compute=B grad=F accum=F reduce=F opt_state=F embed=F", false, "autocast casts the operands"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, one.why);
        const ImportResult result = import_of("torch", one.text);
        CHECK(fields_of(result, {"store", "compute", "grad", "accum", "reduce", "opt_state", "embed"}) == one.fields);
        CHECK((find_rule(result, "torch/no-master", 'W') != nullptr) == one.warns);
        CHECK_FALSE(result.refused());
    }
    const ImportResult low = import_of("torch", cases[0].text);
    CHECK(memory_recipe_of(low).trained.total() == 8);  // weight 2, gradient 2, two moments of 2
    CHECK(memory_recipe_of(import_of("torch", cases[4].text)).trained.total() == 16);
    CHECK(low.policy.find("extends     = \"pure-bf16\"") != std::string::npos);
}

TEST_CASE("the scaler of FSDP 1 accepts fp16 gradients, and that of FSDP 2 does not", "[import][torch]") {
    check_triggers("torch", {
                                {"{model_dtype: float16, fsdp: {version: 1}, grad_scaler: {}}", "", "h100",
                                 "torch/fp16-gradients", 'E', false, "ShardedGradScaler allows fp16"},
                                {"{model_dtype: float16, fsdp: {version: 2}, grad_scaler: {}}", "", "h100",
                                 "torch/fp16-gradients", 'E', true, "FSDP 2 has GradScaler"},
                                {"{model_dtype: bfloat16, fsdp: {version: 1}, grad_scaler: {}}", "", "h100",
                                 "torch/bf16-gradients", 'E', true, "no kernel for bf16 on CUDA"},
                                {"{model_dtype: float16, fsdp: {version: 1}}", "", "h100", "torch/fp16-without-scaler",
                                 'W', true, "the scaler would work"},
                                {"{model_dtype: bfloat16, fsdp: {version: 2}}", "", "h100", "torch/fsdp-low-reduce",
                                 'W', true, "reduce_dtype follows the model"},
                                {"{fsdp: {version: 2, param_dtype: bfloat16}, comm_hook: fp16}", "", "h100",
                                 "torch/hook-of-ddp", 'I', true, "FSDP does not call it"},
                                {"{comm_hook: fp16}", "", "h100", "torch/hook-of-ddp", 'I', false, "DDP calls it"},
                                {"{fsdp: {version: 2, _module_classes_to_ignore: [torch.nn.LayerNorm]}}", "", "h100",
                                 "torch/fsdp2-argument", 'E', true, "no such argument"},
                                {"{fsdp: {version: 1, _module_classes_to_ignore: [torch.nn.LayerNorm]}}", "", "h100",
                                 "torch/ignored-classes", 'N', true, "not emulated"},
                                {"{fsdp: {version: 2, param_dtype: float32, output_dtype: bfloat16}}", "", "h100",
                                 "torch/output-format", 'N', true, "not emulated"},
                            });
}

TEST_CASE("Transformers 5 keeps a bf16 checkpoint under FSDP only without mixed precision", "[import][transformers]") {
    const auto formats = [](const char* text) {
        return fields_of(
            import_text(text, {.framework = "transformers", .versions = "transformers=5.14.1", .checkpoint = "bf16"}),
            {"store", "grad", "opt_state"});
    };
    CHECK(formats("fsdp: full_shard") == "store=B grad=B opt_state=B");
    CHECK(formats("fsdp: full_shard\nbf16: true") == "store=F grad=F opt_state=F");
}

TEST_CASE("modules that are trained whole next to adapters keep the format in which they are loaded",
          "[import][axolotl]") {
    const std::string lora = "base_model: a\nadapter: lora\nlora_modules_to_save: [embed_tokens, lm_head]\n";
    const ImportResult half = import_of("axolotl", lora + "fp16: true\nbf16: false");
    CHECK(half.refused());
    CHECK(said(half, "axolotl/unscale-low-gradients", 'E').find("`lora_modules_to_save` are trained whole in fp16") !=
          std::string::npos);
    const ImportResult bf16 = import_of("axolotl", lora + "bf16: true");
    CHECK_FALSE(bf16.refused());
    CHECK(said(bf16, "axolotl/no-master", 'W').find("8 bytes per parameter of these modules") != std::string::npos);
    CHECK(find_rule(bf16, "axolotl/whole-modules", 'N') != nullptr);
    for (const Finding& one : bf16.findings)
        CHECK_FALSE((one.rule == "axolotl/inert-key" && one.key == "lora_modules_to_save"));
    // FSDP 1 trains fp32 shards. Axolotl's own function for FSDP 2 leaves the shards as they are loaded.
    const ImportResult two = import_of("axolotl", lora + "bf16: true\nfsdp_config: {fsdp_version: 2}");
    CHECK(find_rule(two, "axolotl/no-master", 'W') != nullptr);
    for (const char* safe : {"bf16: false", "bf16: true\nfsdp: [full_shard]\nfsdp_config: {fsdp_version: 1}",
                             "bf16: true\ndeepspeed: {zero_optimization: {stage: 2}}"}) {
        CAPTURE(safe);
        const ImportResult result = import_of("axolotl", lora + safe);
        CHECK(find_rule(result, "axolotl/no-master") == nullptr);
        CHECK(find_rule(result, "axolotl/unscale-low-gradients") == nullptr);
    }
    const ImportResult full = import_of("axolotl", "base_model: a\nbf16: true\nlora_modules_to_save: [lm_head]");
    CHECK(find_rule(full, "axolotl/adapter-keys-alone", 'I') != nullptr);
    const ImportResult factory =
        import_of("llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nadditional_target: embed_tokens");
    CHECK(said(factory, "llamafactory/whole-modules", 'N').find("are trained whole, in fp32") != std::string::npos);
}

TEST_CASE("adapters that are not cast to fp32 have no masters", "[import][axolotl]") {
    const std::string lora = "base_model: a\nadapter: lora\npeft_autocast_adapter_dtype: false\n";
    const ImportResult bf16 = import_of("axolotl", lora + "bf16: true");
    CHECK(fields_of(bf16, {"adapter", "grad", "opt_state"}) == "adapter=B grad=B opt_state=B");
    CHECK(said(bf16, "axolotl/no-master", 'W').find("keeps the adapters in bf16") != std::string::npos);
    const Finding* half =
        find_rule(import_of("axolotl", lora + "fp16: true\nbf16: false"), "axolotl/unscale-low-gradients", 'E');
    CHECK(half != nullptr);
    CHECK(find_rule(import_of("axolotl", "base_model: a\nadapter: lora\nbf16: true"), "axolotl/no-master") == nullptr);
}

TEST_CASE("DeepSpeed casts adapters but not the integers of a quantised base", "[import][axolotl]") {
    const ImportResult result = import_of(
        "axolotl",
        "base_model: a\nadapter: qlora\nload_in_4bit: true\nbf16: true\ndeepspeed: {zero_optimization: {stage: 2}}");
    CHECK(fields_of(result, {"store", "adapter", "grad", "master"}) == "store=nf4 adapter=B grad=B master=F");
}

TEST_CASE("an eps of Adam that fp16 rounds to zero is reported if the step is computed in fp16", "[import]") {
    // 2^-25 is a tie between 0 and the smallest positive number of fp16, and is rounded to the even 0.
    struct Case {
        const char *framework, *text, *checkpoint;
        bool warns;
        const char* why;
    };
    constexpr Case cases[] = {
        {"torch", "model_dtype: float16", "fp32", true, "the default of torch"},
        {"torch", "{model_dtype: float16, fused: true}", "fp32", false, "the fused kernel computes in fp32"},
        {"torch", "model_dtype: bfloat16", "fp32", false, "bf16 has the range of fp32"},
        {"torch", "{model_dtype: float16, fsdp: {version: 1}}", "fp32", true, "shards in fp16"},
        {"transformers", "optim: adamw_torch", "fp16", true, "an fp16 checkpoint"},
        {"transformers", "optim: adamw_torch\nadam_epsilon: 1.0e-7", "fp16", false, "rounded to a number above 0"},
        {"transformers", "optim: adamw_torch\nadam_epsilon: 2.9e-8", "fp16", true, "rounded to 0"},
        {"transformers", "optim: adamw_torch\nadam_epsilon: 3.0e-8", "fp16", false, "rounded to 6e-8"},
        {"transformers", "optim: paged_adamw_32bit", "fp16", false, "fp32 moments"},
        {"transformers", "optim: sgd", "fp16", false, "no eps"},
        {"trl", "model_name_or_path: m\ndtype: float16\nbf16: false\noptim: adamw_torch", "fp32", true,
         "the default of Transformers"},
        {"trl", "model_name_or_path: m\ndtype: float16\nbf16: false\noptim: adamw_torch\nadam_epsilon: 1.0e-7", "fp32",
         false, "TRL passes the key on"},
        {"deepspeed", R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})", "fp32", false, "masters"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.framework, one.text, one.why);
        const ImportResult result = import_of(one.framework, one.text, one.checkpoint);
        CHECK((find_rule(result, std::string(one.framework) + "/eps-is-zero", 'W') != nullptr) == one.warns);
    }
    const char* evaluates = "do_train: false\noptim: adamw_torch\nadam_epsilon: 1.0e-8";
    CHECK(find_rule(import_of("transformers", evaluates, "fp16"), "transformers/eps-is-zero") == nullptr);
    const ImportResult result = import_of("transformers", "optim: adamw_torch\nadam_epsilon: 1.0e-8", "fp16");
    CHECK(find_rule(result, "transformers/eps-is-zero")->instead ==
          "adam_epsilon: 0.0001, or fp32 master weights and moments");
    const auto is_small = [](const char* eps) {
        const std::string text = fmt::format("optim: adamw_torch\nadam_epsilon: {}", eps);
        return find_rule(import_of("transformers", text, "fp16"), "transformers/eps-is-small", 'W') != nullptr;
    };
    CHECK(is_small("1.0e-7"));
    CHECK_FALSE(is_small("1.0e-4"));
    CHECK_FALSE(is_small("1.0e-8"));  // reported as 0
}

TEST_CASE("the Trainer enables its precision in a DeepSpeed section that does not mention it", "[import]") {
    const std::string section = "deepspeed: {zero_optimization: {stage: 2}}\n";
    const auto formats = [](const ImportResult& result) { return fields_of(result, {"store", "compute", "master"}); };
    CHECK(formats(import_of("transformers", section + "bf16: true")) == "store=B compute=B master=F");
    const ImportResult half = import_of("transformers", section + "fp16: true");
    CHECK(formats(half) == "store=H compute=H master=F");
    CHECK(field_of(half, "scaler").starts_with("ds-zero "));
    CHECK(formats(import_of("transformers", section)) == "store=F compute=F master=none");
    CHECK(formats(import_of("axolotl", section + "base_model: a\nbf16: true")) == "store=B compute=B master=F");
    // A file that is missing is reported once, and nothing is said about its contents.
    const ImportResult missing = import_of(
        "llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\ndeepspeed: missing.json");
    CHECK(find_rule(missing, "llamafactory/missing-file", 'E') != nullptr);
    CHECK(find_rule(missing, "transformers/deepspeed-without-zero") == nullptr);
    CHECK(find_rule(missing, "deepspeed/whole-model-cast") == nullptr);
    const ImportResult accumulates = import_of("llamafactory",
                                               "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\n"
                                               "gradient_accumulation_steps: 4\ndeepspeed: missing.json");
    CHECK(find_rule(accumulates, "llamafactory/missing-file", 'E') != nullptr);
    CHECK(find_rule(accumulates, "transformers/deepspeed-without-zero") == nullptr);
    CHECK(find_rule(accumulates, "deepspeed/buffers-cast") == nullptr);
    CHECK(fields_of(accumulates, {"store", "accum", "clip"}) == "store=unset accum=unset clip=unset");
    const std::string own = "deepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: false}}\n";
    CHECK(import_of("transformers", own + "bf16: true").refused());
}

TEST_CASE("max_grad_norm is reported if DeepSpeed's section does not get it", "[import]") {
    const auto speaks = [](const char* framework, const std::string& text) {
        return find_rule(import_of(framework, text), std::string(framework) + "/clipping-unread", 'C') != nullptr;
    };
    const std::string without = "deepspeed: {zero_optimization: {stage: 2}}\nbf16: true\n",
                      with = "deepspeed: {zero_optimization: {stage: 2}, gradient_clipping: auto}\nbf16: true\n";
    CHECK(speaks("transformers", without + "max_grad_norm: 0.5"));
    CHECK_FALSE(speaks("transformers", without));
    CHECK_FALSE(speaks("transformers", with + "max_grad_norm: 0.5"));
    CHECK_FALSE(speaks("transformers", "bf16: true\nmax_grad_norm: 0.5"));
    CHECK(speaks("axolotl", without + "base_model: a\nmax_grad_norm: 0.5"));
}

TEST_CASE("findings say in a short statement what is not emulated", "[import]") {
    struct Case {
        const char *framework, *text, *part;
    };
    constexpr Case cases[] = {
        {"axolotl", "base_model: a\nadapter: lora\nbf16: true",
         "adapters are not emulated: the whole model is trained"},
        {"axolotl", "base_model: a\nadapter: qlora\nload_in_4bit: true", "parameters in nf4 are not emulated"},
        {"axolotl", "base_model: a\nbf16: true\nattn_implementation: flash_attention_2",
         "the attention kernel flash_attention_2 is not emulated"},
        {"axolotl", "base_model: a\nbf16: true\nqat: {weight_dtype: int4}", "`qat` is not emulated"},
        {"axolotl", "base_model: a\nbf16: true\ngemma4_fp8_nonexpert: true\nquantize_moe_experts: true",
         "`gemma4_fp8_nonexpert`, `quantize_moe_experts` are not emulated"},
        {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nflash_attn: fa2",
         "the attention kernel fa2 is not emulated"},
        {"transformers", "bf16: true\ntorch_compile: true", "compiled kernels are not emulated"},
        {"transformers", "bf16: true\noptim: adamw_8bit", "int8 moments are not emulated"},
        {"transformers", "bf16: true\noptim_args: a=1", "`optim_args` is not emulated"},
        {"torch", "compile: true", "compiled kernels are not emulated"},
        {"nanogpt", "compile: true", "compiled kernels are not emulated"},
        {"accelerate", "distributed_type: MULTI_GPU\ndynamo_backend: inductor", "compiled kernels are not emulated"},
        {"deepspeed", R"({"bf16": {"enabled": true}, "optimizer": {"type": "OneBitAdam", "params": {}}})",
         "the compression of OneBitAdam is not emulated"},
        {"megatron", "bf16: true\nfp32-residual-connection: true", "--fp32-residual-connection is not emulated"},
        {"megatron", "bf16: true\nuse-precision-aware-optimizer: true\nexp-avg-dtype: bf16",
         "--exp-avg-sq-dtype fp32 is not emulated"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.framework, one.text, one.part);
        const std::vector<std::string> parts = not_emulated_in(import_of(one.framework, one.text).findings);
        CAPTURE(fmt::format("{}", fmt::join(parts, "\n")));
        CHECK(std::any_of(parts.begin(), parts.end(),
                          [&](const std::string& part) { return part.find(one.part) != std::string::npos; }));
    }
    for (const char* eager : {"base_model: a\nbf16: true", "base_model: a\nbf16: true\nattn_implementation: eager"})
        CHECK(not_emulated_in(import_of("axolotl", eager).findings).empty());
}

TEST_CASE("a finding that says that something is not emulated has the statement", "[import]") {
    const std::filesystem::path shared = shared_folder();
    if (shared.empty() || !std::filesystem::is_directory(shared / "configs")) SKIP_TEST("no folder of configs");
    std::size_t statements = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(shared / "configs")) {
        const std::string name = entry.path().string(), ending = entry.path().extension().string();
        if (ending != ".yaml" && ending != ".yml" && ending != ".json") continue;
        std::vector<Finding> findings;
        try {
            findings = import_files({name}, {}).findings;
        } catch (const Error&) {
            continue;  // not a config of a framework that has an importer
        }
        for (const Finding& one : findings) {
            CAPTURE(name, one.rule, one.message);
            const bool says = one.message.find("not emulate") != std::string::npos && one.code != FindingCode::error;
            if (says) CHECK_FALSE(one.not_emulated.empty());
            statements += one.not_emulated.empty() ? 0 : 1;
        }
    }
    CHECK(statements > 300);
}

}  // namespace combination_test
