// SPDX-License-Identifier: Apache-2.0
// Tests imports of nanoGPT, Megatron-LM, Apex and LongSpec configs: the resolved fields, the findings, and the rules
// that depend on names of modules and parameters.
#include "experiments/configs/policy_text/name_rules.hpp"
#include "tests/configs/imported.hpp"

namespace import_others_test {

using namespace macheps;
using test::Imported;

TEST_CASE("nanoGPT uses autocast only on CUDA, and scales the loss only in float16", "[experiments][import][nanogpt]") {
    const std::string sample = "{dtype: float16, device: cuda, grad_clip: 1.0, gradient_accumulation_steps: 4}";
    const Imported half(sample);
    CHECK(half.result().framework->name == "nanogpt");
    CHECK_FALSE(half.result().refused());
    CHECK(half.field("compute") == "H");
    CHECK(half.field("store") == "F");
    CHECK(half.field("oplist") == "torch-cuda");
    CHECK(half.field("scaler") == "torch");
    CHECK(half.part("scaler", "init_scale") == "65536");
    CHECK(half.part("scaler", "growth_interval") == "2000");
    CHECK(half.part("clip", "max") == "1");
    CHECK(half.has("W nanogpt/compiled"));
    const Imported cpu("{dtype: float16, device: cpu, grad_clip: 1.0}", {.device = "cpu"});
    CHECK(cpu.field("compute") == "F");
    CHECK(cpu.field("scaler") == "none");
    CHECK(cpu.has("W nanogpt/dtype-without-autocast"));
    const test::Asked cuda{.framework = "nanogpt"};
    CHECK(Imported("grad_clip: 1.0", cuda).field("compute") == "B");
    CHECK(Imported("grad_clip: 1.0", cuda).field("scaler") == "none");
    CHECK(Imported("dtype: float32", cuda).field("compute") == "T");
    CHECK(Imported("dtype: float32", {.framework = "nanogpt", .device = "v100"}).field("compute") == "F");
    CHECK(Imported("dtype: float32", cuda).field("oplist") == "none");
    CHECK(Imported("device: cuda", {.framework = "nanogpt", .device = "cpu"}).has("E nanogpt/no-gpu"));
    CHECK(Imported("dtype: float8", cuda).result().refused());
    CHECK(Imported("dytpe: float16", cuda).result().refused());
    // The format of a config without `dtype` is a default, which a finding reports.
    const configs::ImportResult standard = Imported("grad_clip: 1.0", cuda).result();
    const configs::Finding* defaulted = nullptr;
    for (const configs::Finding& one : standard.findings) {
        if (one.code == configs::FindingCode::defaulted && one.key == "dtype") defaulted = &one;
    }
    CHECK(defaulted != nullptr);
}

TEST_CASE("a Python file belongs to nanoGPT unless most of its keys are foreign", "[experiments][import][nanogpt]") {
    const auto score = [](std::string_view text, const char* name) {
        return configs::find_framework("nanogpt")->recognises(files::read_yaml_config(text, name).root);
    };
    CHECK(score("{out_dir: o, gradient_accumulation_steps: 8}", "config.py") > 50);
    CHECK(score("{out_dir: o, gradient_accumulation_steps: 8}", "config.yaml") == 0);
    CHECK(score("{model: m, lr: 1, epochs: 2, dtype: float16}", "train.py") == 0);
}

TEST_CASE("Megatron's arguments decide the stored formats, the main gradients and the scaler",
          "[experiments][import][megatron]") {
    const test::Asked args{.framework = "megatron", .file = "megatron.args"};
    const Imported bf16("--bf16\n", {.file = "megatron.args"});
    CHECK(bf16.result().framework->name == "megatron");
    CHECK(bf16.field("store") == "B");
    CHECK(bf16.field("master") == "F");
    CHECK(bf16.field("accum") == "F");
    CHECK(bf16.field("reduce") == "F");
    CHECK(bf16.field("scaler") == "none");
    CHECK(bf16.part("clip", "max") == "1");
    const Imported reduced("--bf16 --grad-reduce-in-bf16", args);
    CHECK(reduced.field("accum") == "B");
    CHECK(reduced.field("reduce") == "B");
    const Imported fp16("--fp16 --initial-loss-scale 65536 --loss-scale-window 500 --hysteresis 4 --min-loss-scale 2",
                        args);
    CHECK(fp16.field("store") == "H");
    CHECK(fp16.field("accum") == "H");
    CHECK(fp16.field("scaler") == "megatron");
    CHECK(fp16.part("scaler", "init_scale") == "65536");
    CHECK(fp16.part("scaler", "growth_interval") == "500");
    CHECK(fp16.part("scaler", "hysteresis") == "4");
    CHECK(fp16.part("scaler", "min_scale") == "2");
    const Imported defaults("--fp16", args);
    CHECK(defaults.part("scaler", "init_scale") == "4294967296");
    CHECK(defaults.has("W megatron/long-overflow-cascade"));
    CHECK(Imported("--fp16 --accumulate-allreduce-grads-in-fp32", args).field("accum") == "F");
    const Imported constant("--bf16 --loss-scale 128", args);
    CHECK(constant.field("scaler") == "static");
    CHECK(constant.part("scaler", "init_scale") == "128");
    CHECK(Imported("--num-layers 2", args).field("compute") == "F");
    const Imported recipe("--bf16 --fp8-format hybrid",
                          {.framework = "megatron", .device = "h100", .file = "megatron.args"});
    CHECK(recipe.field("fp8") == "te_delayed");
    CHECK(recipe.part("fp8", "history") == "1");
    CHECK(recipe.has("W megatron/short-amax-history"));

    const struct {
        const char *arguments, *finding;
        bool fires;
    } rows[] = {
        {"--fp16 --bf16", "E megatron/fp16-and-bf16", true},
        {"--bf16", "E megatron/fp16-and-bf16", false},
        {"--fp16 --hysteresis 0", "E megatron/bad-hysteresis", true},
        {"--fp16 --min-loss-scale 8589934592", "E megatron/bad-floor", true},
        {"--bf16 --fp16-lm-cross-entropy", "E megatron/cross-entropy-without-fp16", true},
        {"--fp16 --fp16-lm-cross-entropy", "E megatron/cross-entropy-without-fp16", false},
        {"--fp32-residual-connection", "E megatron/residual-without-low-precision", true},
        {"--bf16 --fp8-format e4m3", "E megatron/fp8-device", true},
        {"--bf16 --accumulate-allreduce-grads-in-fp32 --main-grads-dtype bf16", "E megatron/narrow-main-gradients",
         true},
        {"--bf16 --accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16", "C megatron/bf16-reduction-wins", true},
        {"--fp16 --grad-reduce-in-bf16", "I megatron/reduction-without-bf16", true},
        {"--bf16 --exp-avg-dtype bf16", "E megatron/optimizer-dtype-refused", true},
        {"--bf16 --main-grads-dtype bf16", "E megatron/optimizer-dtype-refused", true},
        {"--bf16 --main-params-dtype fp16", "E megatron/optimizer-dtype-refused", true},
        {"--bf16 --main-grads-dtype fp32", "E megatron/optimizer-dtype-refused", false},
        {"--bf16 --use-precision-aware-optimizer --exp-avg-dtype bf16", "E megatron/optimizer-dtype-refused", false},
        {"--bf16 --use-precision-aware-optimizer", "N megatron/masters-kept", true},
        {"--bf16", "N megatron/masters-kept", false},
        {"--bf16 --no-such-option 3", "U megatron/unknown-key", true},
        {"--bf16 --tensor-model-parallel-size 4 --num-layers 12", "U megatron/unknown-key", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.arguments, row.finding);
        CHECK(Imported(row.arguments, args).has(row.finding) == row.fires);
    }
    const auto source_of_grad = [&](const char* arguments) {
        return Imported(arguments, args).result().resolved.find("grad")->from;
    };
    CHECK(
        source_of_grad("--bf16 --use-precision-aware-optimizer --main-grads-dtype bf16").ends_with("main-grads-dtype"));
    CHECK(source_of_grad("--bf16 --grad-reduce-in-bf16").ends_with("grad-reduce-in-bf16"));
    const auto remainders = [&](const char* more) {
        const Imported found(std::string("--bf16 --use-precision-aware-optimizer ") + more, args);
        return test::find_rule(found.result(), "megatron/masters-kept")->message.find("4 bytes") != std::string::npos;
    };
    CHECK(remainders(""));
    CHECK_FALSE(remainders("--main-params-dtype fp16"));
}

TEST_CASE("Apex's levels decide the formats and the scaler", "[experiments][import][apex]") {
    const Imported sample("apex: {opt_level: O2, loss_scale: dynamic}");
    CHECK(sample.result().framework->name == "apex");
    CHECK(sample.field("store") == "H");
    CHECK(sample.field("master") == "F");
    CHECK(sample.field("norm") == "H");  // only batch norms stay in fp32
    CHECK(sample.field("scaler") == "apex");
    CHECK(sample.part("scaler", "init_scale") == "65536");
    CHECK(sample.part("scaler", "max_scale") == "16777216");
    CHECK(sample.has("W apex/norms-in-half"));
    const test::Asked apex{.framework = "apex"};
    const Imported o1("opt_level: O1", apex);
    CHECK(o1.field("store") == "F");
    CHECK(o1.field("oplist") == "apex-o1");
    CHECK(o1.field("scaler") == "apex");
    CHECK(Imported("opt_level: O0", apex).field("compute") == "F");
    CHECK(Imported("opt_level: O0", apex).field("scaler") == "none");
    const Imported o3("opt_level: O3", apex);
    CHECK_FALSE(o3.has("N apex/batchnorm-kept"));
    CHECK(Imported("opt_level: O3\nkeep_batchnorm_fp32: true", apex).has("N apex/batchnorm-kept"));
    CHECK(Imported("opt_level: O2\nkeep_batchnorm_fp32: false", apex).has("N apex/batchnorm-kept"));
    CHECK_FALSE(Imported("opt_level: O1\nkeep_batchnorm_fp32: true", apex).has("N apex/batchnorm-kept"));
    CHECK(o3.field("master") == "none");
    CHECK(o3.field("scaler") == "none");
    CHECK(o3.has("W apex/no-masters"));
    const Imported fixed("{opt_level: O2, loss_scale: 128.0}", apex);
    CHECK(fixed.field("scaler") == "static");
    CHECK(fixed.part("scaler", "skip") == "false");
    CHECK(fixed.has("W apex/static-scale-unguarded"));
    for (const char* key : {"keep_batchnorm_fp32: true", "cast_model_type: fp16", "master_weights: true"}) {
        CAPTURE(key);
        CHECK(Imported(std::string("opt_level: O1\n") + key, apex).result().refused());
        CHECK_FALSE(Imported(std::string("opt_level: O2\n") + key, apex).result().refused());
    }
    CHECK(Imported("{opt_level: O4}", apex).result().refused());
    CHECK(Imported("{opt_level: O2, loss_scale: dynamically}", apex).result().refused());
}

TEST_CASE("LongSpec trains as its DeepSpeed section says, whatever its other keys request",
          "[experiments][import][longspec]") {
    const Imported sample(
        "torch_dtype: {_target_: general_util.training_utils.return_torch_dtype, dtype: bfloat16}\n"
        "fp16: true\nfp16_bfloat16: true\n"
        "ds_cfg: {bf16: {enabled: false}, fp16: {enabled: true, loss_scale: 0, initial_scale_power: 16, hysteresis: "
        "2}, zero_optimization: {stage: 1}}\n");
    CHECK(sample.result().framework->name == "longspec");
    CHECK(sample.field("store") == "H");
    CHECK(sample.field("compute") == "H");
    CHECK(sample.field("master") == "F");
    CHECK(sample.field("eval") == "B");
    CHECK(sample.part("scaler", "init_scale") == "65536");
    CHECK(sample.part("scaler", "growth_interval") == "1000");
    CHECK(sample.has("C longspec/load-dtype"));
    CHECK(sample.has("C longspec/eval-dtype"));
    CHECK(sample.has("N longspec/tf32-in-loss"));
    CHECK_FALSE(sample.result().refused());
}

TEST_CASE("Hydra composes a config from the files in its defaults list", "[experiments][import][longspec]") {
    const std::filesystem::path folder = test::import_folder() / "hydra";
    std::filesystem::create_directories(folder / "deepspeed");
    std::ofstream(folder / "deepspeed/base.yaml")
        << "bf16: {enabled: true}\nzero_optimization: {stage: 1, reduce_bucket_size: 1e8}\n"
           "gradient_accumulation_steps: ${steps}\n";
    const std::string text =
        "defaults:\n  - hydra: default\n  - deepspeed@ds_cfg: base\n  - _self_\nsteps: 4\n"
        "ds_cfg:\n  bf16: {enabled: false}\n  fp16: {enabled: true, initial_scale_power: 16}\n  zero_optimization: "
        "{stage: 3}\n";
    const Imported config(text, {.framework = "longspec", .file = "hydra/exp/run.yaml"});
    CHECK(config.field("store") == "H");
    CHECK(config.field("scaler") == "ds-zero");
    CHECK_FALSE(config.result().refused());
    const Imported missing("defaults:\n  - deepspeed@ds_cfg: absent\nds_cfg: {}\n",
                           {.framework = "longspec", .file = "hydra/exp/run.yaml"});
    CHECK(missing.has("E longspec/missing-file"));
    // The importer must terminate even if the expansion of references grows exponentially, or if a reference refers to
    // itself.
    std::string bomb = "a0: x\n";
    for (int i = 1; i < 40; ++i) bomb += fmt::format("a{}: ${{a{}}}${{a{}}}${{a{}}}\n", i, i - 1, i - 1, i - 1);
    CHECK(Imported(bomb + "loop: ${loop}\nds_cfg: {}\n", {.framework = "longspec"}).field("compute") == "F");
}

TEST_CASE("rules that depend on names match the same names as the frameworks, including false positives",
          "[experiments][import][names]") {
    using namespace configs::name_rules;
    CHECK(llamafactory_layernorm("model.layers.0.input_layernorm.weight", 1));
    CHECK(llamafactory_layernorm("transformer.h.0.ln_1.bias", 1));
    CHECK(llamafactory_layernorm("model.lnproj.bias", 1));  // not a norm
    CHECK_FALSE(llamafactory_layernorm("model.lnproj.weight", 2));
    // The search for `norm` and `ln` is case-sensitive, and this name contains neither.
    CHECK_FALSE(llamafactory_layernorm("model.final_LayerNorm.weight", 1));
    CHECK_FALSE(llamafactory_layernorm("model.layers.0.mlp.up_proj.bias", 1));
    CHECK(llamafactory_lmhead(true, 'B'));
    CHECK_FALSE(llamafactory_lmhead(true, 'F'));
    CHECK_FALSE(llamafactory_lmhead(false, 'B'));
    CHECK(llamafactory_casts_trained(false, false, false, false));
    CHECK_FALSE(llamafactory_casts_trained(true, false, false, false));
    CHECK_FALSE(llamafactory_casts_trained(false, true, false, false));
    CHECK_FALSE(llamafactory_casts_trained(false, false, true, false));
    CHECK(llamafactory_casts_trained(false, false, true, true));
    CHECK(longspec_norm("model.norm"));
    CHECK(longspec_norm("model.normaliser"));
    CHECK(longspec_head("lm_head", true, 'F', true));
    CHECK_FALSE(longspec_head("lm_head", true, 'H', true));
    CHECK_FALSE(longspec_head("lm_head", true, 'F', false));
    CHECK_FALSE(longspec_head("model.layers.0", true, 'F', true));
    CHECK(axolotl_casts("model.layers.0.input_layernorm", true, "llama", false));
    CHECK(axolotl_casts("model.layers.0.mlp.gate", true, "mixtral", true));
    CHECK_FALSE(axolotl_casts("model.layers.0.mlp.gate", true, "mixtral", false));
    CHECK_FALSE(axolotl_casts("model.layers.0.mlp.gate_proj", true, "llama", true));
    CHECK(axolotl_casts("lm_head", true, "llama", true));
    CHECK_FALSE(axolotl_casts("lm_head", true, "btlm", true));
    CHECK(axolotl_casts("gpt_neox.embed_in", true, "gpt_neox", true));
    CHECK_FALSE(axolotl_casts("lm_head", true, "gpt_neox", true));
    CHECK(axolotl_casts("transformer.word_embeddings", true, "falcon", true));
    CHECK(axolotl_fp32_norm("transformers.models.llama.modeling_llama.LlamaRMSNorm", {}));
    CHECK(axolotl_fp32_norm("torch.nn.modules.normalization.LayerNorm", {}));
    CHECK_FALSE(axolotl_fp32_norm("torch.nn.modules.batchnorm.BatchNorm1d", {}));
    const std::string_view exact[] = {"a.b.MyNorm", "  "};
    CHECK(axolotl_fp32_norm("a.b.MyNorm", exact));
    CHECK_FALSE(axolotl_fp32_norm("c.b.MyNorm", exact));
    CHECK(peft_casts_adapter('B'));
    CHECK_FALSE(peft_casts_adapter('F'));
    CHECK(peft_kbit_casts('H', false));
    CHECK_FALSE(peft_kbit_casts('H', true));
    CHECK(fsdp1_ignores("BatchNorm2d"));
    CHECK_FALSE(fsdp1_ignores("LayerNorm"));
}

}  // namespace import_others_test
