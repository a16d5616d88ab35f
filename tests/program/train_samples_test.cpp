// SPDX-License-Identifier: Apache-2.0
// Tests `macheps train --config` on configs of every framework: a sample with the important keys, and a published
// config. Each config trains and ends with a report, or is refused because the framework refuses it.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <map>
#include <string>
#include <vector>

namespace train_samples_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

struct Sample {
    const char *name, *text, *framework;
};

const Sample samples[] = {
    {"nanogpt.yaml", "{dtype: float16, device: cuda, grad_clip: 1.0, gradient_accumulation_steps: 4}\n", "nanogpt"},
    {"hf_args.yaml",
     "{bf16: true, fp16: false, tf32: true, bf16_full_eval: false, max_grad_norm: 1.0, gradient_accumulation_steps: "
     "8}\n",
     "transformers"},
    {"accelerate.yaml",
     "{compute_environment: LOCAL_MACHINE, distributed_type: FSDP, mixed_precision: fp8, num_processes: 8,\n"
     " fp8_config: {backend: AO, enable_fsdp_float8_all_gather: true, pad_inner_dim: true},\n"
     " fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false, fsdp_reshard_after_forward: true}}\n",
     "accelerate"},  // on the default a100, for which Accelerate chooses fp16
    {"ds.json",
     "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 16, \"loss_scale_window\": 1000,\n"
     "  \"hysteresis\": 2, \"min_loss_scale\": 1}, \"zero_optimization\": {\"stage\": 2},\n"
     " \"communication_data_type\": \"fp32\", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, \"gradient_clipping\": "
     "1.0,\n \"train_micro_batch_size_per_gpu\": 2}\n",
     "deepspeed"},
    {"lf.yaml",
     "{stage: sft, do_train: true, finetuning_type: lora, quantization_bit: 4, bf16: true, upcast_layernorm: false}\n",
     "llamafactory"},
    {"lf_galore.yaml",
     "{stage: pt, do_train: true, finetuning_type: full, use_galore: true, optim: adamw_torch,\n"
     " pure_bf16: true, galore_rank: 128}\n",
     "llamafactory"},
    {"longspec.yaml",
     "{torch_dtype: {_target_: general_util.training_utils.return_torch_dtype, dtype: bfloat16}, fp16: true,\n"
     " fp16_bfloat16: true, ds_cfg: {bf16: {enabled: false}, fp16: {enabled: true, loss_scale: 0,\n"
     " initial_scale_power: 16, hysteresis: 2}, zero_optimization: {stage: 1}}}\n",
     "longspec"},
    {"fsdp.yaml",
     "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}, apex: {opt_level: O2, loss_scale: "
     "dynamic}}\n",
     "torch"},
    {"apex.yaml", "{opt_level: O2, loss_scale: dynamic}\n", "apex"},
    {"megatron.args", "--bf16\n", "megatron"},
    {"trl.yaml", "{model_name_or_path: my/model, dataset_name: d, dtype: bfloat16, max_length: 1024}\n", "trl"},
    {"verl.yaml",
     "{actor_rollout_ref: {model: {path: my/model}, actor: {strategy: fsdp, fsdp_config: {mixed_precision:\n"
     " {param_dtype: fp16}}}, rollout: {dtype: float16}}}\n",
     "verl"},
    {"torchtune.yaml",
     "{model: {_component_: torchtune.models.llama3.llama3_8b}, optimizer: {_component_: torch.optim.AdamW},\n"
     " dtype: bf16}\n",
     "torchtune"},
    {"neox.yml",
     "{\"num_layers\": 2, \"precision\": \"fp16\", \"zero_optimization\": {\"stage\": 1},\n"
     " \"train_micro_batch_size_per_gpu\": 4,}\n",
     "gpt-neox"},
};

/// Trains a config and fp32, checks the files of the run, and returns the framework that macheps recognised.
std::string trained(const std::string& config) {
    const Outcome outcome = run(std::string(quick) + "--config '" + config + "' -q --force --out run");
    CAPTURE(config, outcome.err);
    REQUIRE(outcome.code == 0);
    const std::string page = contents(scratch() / "run/report.html");
    CHECK(page.size() > 1000);
    CHECK(page.find("</html>") != std::string::npos);
    const json policies = json::parse(contents(scratch() / "run/manifest.json")).at("policies");
    // The policies are the config and fp32. If the config computes in a format of narrow range, there is also a
    // stressed policy for each of them.
    REQUIRE(policies.size() == (policies.contains("fp32+outliers") ? 4 : 2));
    for (const auto& [name, policy] : policies.items()) {
        CHECK(page.find(name) != std::string::npos);
        if (policy.contains("config")) return policy.at("config").at("framework");
    }
    return "";
}

/// Copies the configs of LongSpec, and replaces the placeholder for a directory in them.
void write_longspec(const fs::path& from) {
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
        const fs::path to = scratch() / "longspec" / fs::relative(entry.path(), from);
        if (entry.is_directory()) {
            fs::create_directories(to);
            continue;
        }
        std::string text = contents(entry.path());
        const std::string placeholder = "[Your Directory]";
        for (auto at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder))
            text.replace(at, placeholder.size(), "/work");
        fs::create_directories(to.parent_path());
        std::ofstream(to, std::ios::binary) << text;
    }
}

}  // namespace

TEST_CASE("train --config trains with the sample config of every framework and writes a report",
          "[program][config][samples]") {
    for (const Sample& sample : samples) {
        write(sample.name, sample.text);
        CHECK(trained(sample.name) == sample.framework);
    }
    fs::remove_all(scratch());
}

TEST_CASE("train --config: the sample that Axolotl refuses is refused on every device", "[program][config][samples]") {
    write("axolotl.yaml",
          "{base_model: my/model, bf16: auto, tf32: auto, fp8: true, fp8_enable_fsdp_float8_all_gather: true, "
          "micro_batch_size: 1}\n");
    for (const char* device : {"a100", "h100"}) {
        const Outcome outcome = run(std::string(quick) + "--config axolotl.yaml --gpu " + device + " -q --out run");
        CAPTURE(device, outcome.err);
        CHECK(outcome.code == 1);
        CHECK(outcome.err.find("[axolotl/all-gather-without-fsdp2]") != std::string::npos);
        CHECK_FALSE(fs::exists(scratch() / "run"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("train --config: a published config of every framework trains and gives a report",
          "[program][config][samples]") {
    const fs::path shared = shared_folder() / "configs";
    if (shared_folder().empty() || !fs::is_directory(shared)) SKIP_TEST("no folder of published configs");
    const std::pair<const char*, const char*> published[] = {
        {"accelerate/accelerate__config_yaml_templates__fsdp.yaml", "accelerate"},
        {"axolotl/axolotl__llama-3__fft-8b.yaml", "axolotl"},
        {"deepspeed/deepspeedexamples__imagenet__config__ds_fp16_z1_config.json", "deepspeed"},
        // Without `optim`, LLaMA-Factory refuses this file with the versions that are assumed.
        {"llamafactory/llama-factory__extras__galore__llama3_full_sft.yaml+optim=adamw_torch", "llamafactory"}};
    for (const auto& [file, framework] : published) CHECK(trained((shared / file).string()) == framework);
    write_longspec(shared / "longspec");
    CHECK(trained("longspec/exp/qwq_glide_8gpu_slim6b.yaml") == "longspec");
    const json run = json::parse(contents(scratch() / "run/manifest.json"));
    for (const auto& [name, policy] : run.at("policies").items()) {
        if (!policy.contains("config") || name.ends_with("+outliers"))
            continue;  // a stressed policy only extends the policy of the config
        const std::string toml = policy.at("toml");
        CHECK(toml.find("kind = \"ds-zero\"") != std::string::npos);
        CHECK(policy.at("config").at("files").size() >= 2);  // the experiment, and the files that its defaults name
    }
    fs::remove_all(scratch());
}

}  // namespace train_samples_test
