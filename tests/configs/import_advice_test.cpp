// SPDX-License-Identifier: Apache-2.0
// Tests the advice of findings. If the text "instead" is a setting (`bf16: true`, `"stage": 1 with "x": 2`,
// `--hysteresis 2`), the test applies it and imports the config again.
#include "core/error.hpp"
#include "experiments/configs/remedy/settings.hpp"
#include "tests/configs/import_case.hpp"

#include <map>
#include <set>

namespace import_advice_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

namespace fs = std::filesystem;

using Errors = std::set<std::string>;

Errors errors_of(const ImportResult& result) {
    Errors errors;
    for (const Finding& finding : result.findings) {
        if (severity(finding) == FindingSeverity::error) errors.insert(finding.rule);
    }
    return errors;
}

struct Sample {
    std::string file;
    Told told;
};

/// Returns whether the advice names the section of a key. It may leave out a section that the config has, because the
/// finding is then at this section or in it. Lightning writes the section for DeepSpeed itself if the file has none.
bool names_section(const std::string& file, const std::string& name, const std::string& path) {
    if (!path.ends_with("." + name)) return true;
    const std::string section = path.substr(0, path.size() - name.size() - 1);
    if (section == "trainer.strategy.init_args.config") return true;
    return files::read_config_file(file).root.find(section) != nullptr;
}

/// Follows every advice that is a setting, and returns how many there were. Each config must have no error that it did
/// not have before, and the finding must be gone.
int follow(const Sample& sample) {
    ImportResult first;
    try {
        first = import_files({sample.file}, sample.told);
    } catch (const Error&) {
        return 0;  // not a config
    }
    const Errors before = errors_of(first);
    int followed = 0;
    for (const Finding& finding : first.findings) {
        // The path of a key in another file does not lead to the key, and a letter N represents a number.
        const bool is_elsewhere =
            finding.place.file != sample.file || finding.key.find("config_file.") != std::string::npos;
        if (is_elsewhere || finding.code == FindingCode::defaulted || finding.instead == "num_processes: N") continue;
        std::vector<std::string> input{sample.file};
        const std::vector<Setting> named = settings_in(finding.instead, finding.rule.starts_with("megatron/"));
        const std::vector<Setting> settings = settings_of(finding);
        REQUIRE(named.size() == settings.size());
        for (std::size_t i = 0; i < settings.size(); ++i) {
            input.push_back(settings[i].text());
            CAPTURE(sample.file, finding.rule, finding.instead, finding.key);
            CHECK(names_section(sample.file, named[i].path, settings[i].path));
        }
        if (input.size() == 1) continue;
        ++followed;
        const ImportResult then = import_files(input, sample.told);
        std::string added;
        for (const std::string& rule : errors_of(then)) {
            if (!before.contains(rule)) added += rule + " ";
        }
        CAPTURE(sample.file, sample.told.versions, sample.told.device, finding.rule, finding.instead, input);
        CHECK(added == "");
        const bool is_gone = std::none_of(then.findings.begin(), then.findings.end(), [&](const Finding& one) {
            return one.rule == finding.rule && one.code == finding.code && one.message == finding.message;
        });
        CHECK(is_gone);
    }
    return followed;
}

constexpr const char* version_sets[] = {
    "", "deepspeed=0.16.5,transformers=4.41.2,torch=2.2.2,accelerate=0.34.2,axolotl=0.17.0,llamafactory=0.9.3",
    "deepspeed=0.17.6,transformers=4.57.1,accelerate=1.7.0,llamafactory=0.9.4", "deepspeed=0.18.5,transformers=4.57.6"};
constexpr const char* devices[] = {"h100", "v100", "cpu"};

struct Text {
    const char* framework;
    const char* config;
};

constexpr Text texts[] = {
    {"deepspeed", R"({"bf16": {"enabled": true}, "gradient_accumulation_steps": 8})"},
    {"deepspeed",
     R"({"bf16": {"enabled": true}, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 1}})"},
    {"deepspeed",
     R"({"bf16": {"enabled": true}, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}})"},
    {"deepspeed", R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})"},
    {"deepspeed", R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp16"}})"},
    {"deepspeed", R"({"fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32", "param_dtype": "bf16"}})"},
    {"deepspeed", R"({"fp16": {"enabled": true, "loss_scale": 128, "hysteresis": 0}})"},
    {"deepspeed", R"({"fp16": {"enabled": true, "hysteresis": 0}, "zero_optimization": {"stage": 2}})"},
    {"deepspeed", R"({"fp16": {"enabled": true, "loss_scale_window": 0, "min_loss_scale": 0}})"},
    {"deepspeed", R"({"fp16": {"enabled": true}})"},
    {"deepspeed", R"({"fp16": {"enabled": true}, "optimizer": {"type": "OneBitAdam"}})"},
    {"deepspeed", R"({"fp16": {"enabled": true}, "optimizer": {"type": "OneBitLamb"}})"},
    {"deepspeed", R"({"bf16": {"enabled": true, "check_grad_overflow": false}})"},
    {"transformers", "fp16: true"},
    {"transformers", "bf16: true"},
    {"transformers", "bf16: true\ntf32: true\ntorch_compile: true"},
    {"transformers", "bf16_full_eval: true"},
    {"transformers", "fp16: true\noptim: adamw_torch_fused"},
    {"accelerate", "distributed_type: \"NO\"\nmixed_precision: no"},
    {"accelerate", "distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: fp8"},
    {"accelerate", "distributed_type: FSDP\nnum_processes: 2\nmixed_precision: fp8\nfp8_config: {backend: AO}"},
    {"accelerate", "distributed_type: FSDP\nnum_processes: 2\nmixed_precision: fp8\nfp8_config: {backend: MSAMP}"},
    {"accelerate",
     "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config: {fsdp_sync_module_states: false, "
     "fsdp_cpu_ram_efficient_loading: true}"},
    {"accelerate", "mixed_precision: fp16"},
    {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: qlora\npure_bf16: true"},
    {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\nuse_galore: true"},
    {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\nquantization_bit: 4"},
    {"llamafactory", "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: lora\nuse_badam: true"},
    {"llamafactory",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: lora\nbf16: true\nfp8: true\n"
     "fp8_backend: msamp"},
    {"llamafactory",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: lora\nquantization_bit: 3\npissa_init: true"},
    {"axolotl", "base_model: a\nfp16: true\nbf16: true"},
    {"axolotl", "base_model: a\nbf16: full"},
    {"axolotl", "base_model: a\nfp16: true\nbf16: false\nsample_packing: true"},
    {"axolotl", "base_model: a\nload_in_4bit: true"},
    {"axolotl", "base_model: a\nadapter: qlora\nload_in_8bit: true"},
    {"axolotl", "base_model: a\nfp8: true\nfp8_enable_fsdp_float8_all_gather: true"},
    {"axolotl", "base_model: a\nfp8: true\nfp8_enable_fsdp_float8_all_gather: true\nfp8_config: {recipe: rowwise}"},
    {"axolotl", "base_model: a\nfp8_config: {recipe: rowwise}"},
    {"axolotl", "base_model: a\nbfloat16: true\nfp16: true"},
    {"axolotl", "base_model: a\nattn_implementation: flash"},
    {"axolotl", "base_model: a\nfp32_norms: true\nfp32_norm_classes: [RMSNorm]"},
    {"axolotl", "base_model: a\noptimizer: muon\nfsdp: [full_shard]"},
    {"torch", "{model_dtype: bfloat16}"},
    {"torch", "{model_dtype: float16, grad_scaler: {}}"},
    {"torch", "{autocast: {dtype: float16}}"},
    {"torch", "{autocast: {dtype: float16}, grad_scaler: {growth_factor: 1.0, backoff_factor: 1.0}}"},
    {"torch", "{fsdp: {param_dtype: bfloat16, buffer_dtype: bfloat16}}"},
    {"torch", "{fsdp: {param_dtype: float16, output_dtype: float32}}"},
    {"torch", "{comm_hook: fp16, fp32_precision: tf32}"},
    {"apex", "{opt_level: O1, keep_batchnorm_fp32: true, master_weights: true, cast_model_type: float16}"},
    {"apex", "{opt_level: O3, loss_scale: 128}"},
    {"megatron", "{bf16: true, fp16: true}"},
    {"megatron", "{fp16: true, min-loss-scale: 0, hysteresis: 0}"},
    {"megatron", "{bf16: true, grad-reduce-in-bf16: true, main-grads-dtype: bf16}"},
    {"megatron", "{bf16: true, fp8-format: hybrid, fp8-amax-history-len: 0}"},
    {"megatron", "{bf16: true, fp8-format: hybrid, fp8-recipe: delayed, first-last-layers-bf16: true}"},
    {"nanogpt", "{dtype: float16, device: cpu}"},
    {"trl", "model_name_or_path: m\nmax_length: 8\ntorch_dtype: bfloat16"},
    {"trl", "model_name_or_path: m\nmax_length: 8\ndtype: float16\nfp16: true"},
    {"trl", "model_name_or_path: m\nmax_length: 8\nload_in_4bit: true\nfp16: true"},
    {"lightning", "trainer: {precision: 16-true, strategy: fsdp, gradient_clip_val: 1.0}"},
    {"lightning",
     "trainer: {precision: transformer-engine, strategy: deepspeed, gradient_clip_algorithm: value, "
     "gradient_clip_val: 1.0}"},
    {"composer", "max_duration: 1ba\nprecision: amp_fp16\nfsdp_config: {mixed_precision: PURE}"},
    {"composer", "max_duration: 1ba\nprecision: amp_fp8"},
    {"torchtitan",
     "training: {dtype: bfloat16}\nmodel: {converters: [float8]}\nfloat8: {recipe_name: rowwise, "
     "enable_fsdp_float8_all_gather: true}"},
    {"kohya", "mixed_precision: fp16\nfull_bf16: true"},
    {"kohya", "mixed_precision: fp16\nfull_fp16: true\noptimizer_type: AdamW"},
    {"torchtune", "dtype: fp16\noptimizer_in_bwd: true\nclip_grad_norm: 1.0\ngradient_accumulation_steps: 2"},
    {"gpt-neox", "{num_layers: 2, train_batch_size: 4, precision: fp16, bf16: {enabled: true}}"},
    {"gpt-neox", "{num_layers: 2, train_batch_size: 4, precision: bfloat16, zero_optimization: {stage: 1}}"},
    {"verl",
     "actor_rollout_ref: {actor: {fsdp_config: {model_dtype: bf16, mixed_precision: {param_dtype: fp16, "
     "reduce_dtype: bf16, buffer_dtype: bf16}}}}"},
    // A part of these configs is delegated to the importer of DeepSpeed.
    {"gpt-neox",
     "{num_layers: 2, train_batch_size: 4, precision: bfloat16, zero_optimization: {stage: 1}, "
     "gradient_accumulation_steps: 4}"},
    {"gpt-neox", "{num_layers: 2, train_batch_size: 4, precision: fp16, fp16: {enabled: true, hysteresis: 0}}"},
    {"transformers", "bf16: true\ngradient_accumulation_steps: 4\ndeepspeed: {zero_optimization: {stage: 2}}"},
    {"axolotl",
     "base_model: a\nbf16: true\ngradient_accumulation_steps: 4\ndeepspeed: {zero_optimization: "
     "{stage: 2}}"},
};

}  // namespace

TEST_CASE("an advice that is a setting is found in its text", "[import][advice]") {
    const auto shown = [](const char* text) {
        std::string all;
        for (const Setting& setting : settings_in(text, true)) all += setting.text() + " ";
        return all;
    };
    CHECK(shown("bf16: true") == "bf16=true ");
    CHECK(shown("tf32: false, to keep fp32") == "tf32=false ");
    CHECK(shown("\"grad_accum_dtype\": \"fp32\" with \"stage\": 1") == "grad_accum_dtype=\"fp32\" stage=1 ");
    CHECK(shown("\"a\": {\"b\": \"fp32\"} with \"c\": {\"stage\": 1}, or remove it") == "a.b=\"fp32\" c.stage=1 ");
    CHECK(shown("--hysteresis 2") == "hysteresis=2 ");
    CHECK(shown("--a 1 --b x, for the defaults") == "a=1 b=x ");
    CHECK(shown("\"stage\": 2 with \"offload_optimizer\": {\"device\": \"cpu\"}") ==
          "stage=2 offload_optimizer.device=\"cpu\" ");
    CHECK(shown("deepspeed 0.18.5 or newer, and \"stage\": 1") == "");
    CHECK(shown("remove it") == "");
}

TEST_CASE("an advice that is a setting causes no new error and ends its finding", "[import][advice]") {
    const ConfigFolder folder;
    int followed = 0;
    for (std::size_t i = 0; i < std::size(texts); ++i) {
        const std::string file = folder.write(fmt::format("config{}.yaml", i), texts[i].config);
        for (const char* versions : version_sets) {
            for (const char* device : devices) {
                for (const char* checkpoint : {"fp32", "bf16"})
                    followed += follow({file, {texts[i].framework, versions, device, checkpoint}});
            }
        }
    }
    CHECK(followed >= 400);
}

TEST_CASE("an advice about a published or a reported config causes no new error and ends its finding",
          "[import][advice]") {
    const fs::path shared = shared_folder();
    if (shared.empty() || !fs::is_directory(shared / "configs")) SKIP_TEST("no folder of published configs");
    int followed = 0;
    for (const char* folder : {"configs", "cases/configs", "spec/frameworks-2/samples/config"}) {
        if (!fs::is_directory(shared / folder)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(shared / folder)) {
            static const std::set<std::string> endings{".json", ".yaml", ".yml", ".args"};
            if (!entry.is_regular_file() || !endings.contains(entry.path().extension().string())) continue;
            for (const char* versions : version_sets)
                followed += follow({entry.path().string(), {.framework = "", .versions = versions}});
        }
    }
    CHECK(followed >= 300);
}

}  // namespace import_advice_test
