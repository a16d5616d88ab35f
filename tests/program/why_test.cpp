// SPDX-License-Identifier: Apache-2.0
// Tests `macheps why`: its output, its exit codes, its errors, and the commands of its entries.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace why_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// A config for the command of an entry. The import must report one of the rules of the entry.
struct Sample {
    std::string file, text;
};

Sample deepspeed(const char* text) { return {"ds.json", text}; }
Sample trainer(const std::string& text) { return {"hf.yaml", text + "output_dir: out\nlearning_rate: 1.0e-4\n"}; }
Sample axolotl(const std::string& text) {
    return {"axolotl.yaml", "base_model: llama\nmicro_batch_size: 2\nsequence_len: 512\n" + text};
}
Sample llamafactory(const std::string& method, const std::string& text) {
    return {"lf.yaml",
            "model_name_or_path: m\nstage: sft\ndo_train: true\ndataset: d\ntemplate: default\n"
            "finetuning_type: " +
                method + "\n" + text};
}
Sample accelerate(const std::string& type, const std::string& precision, const std::string& text) {
    return {"acc.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: " + type +
                            "\nmixed_precision: " + precision + "\n" + text};
}

const std::map<std::string, Sample> samples{
    {"t5-fp16", trainer("fp16: true\n")},
    {"acc-bool-lower", accelerate("'NO'", "no", "")},
    {"acc-deepspeed-dtype", accelerate("DEEPSPEED", "fp16", "deepspeed_config: {deepspeed_config_file: base.json}\n")},
    {"acc-deepspeed-file",
     accelerate("DEEPSPEED", "bf16", "deepspeed_config: {deepspeed_config_file: base.json, zero_stage: 2}\n")},
    {"acc-deepspeed-zero", accelerate("DEEPSPEED", "bf16", "deepspeed_config: {deepspeed_config_file: plain.json}\n")},
    {"acc-fp16-device", accelerate("'NO'", "fp16", "")},
    {"acc-fp8-backend", accelerate("'NO'", "fp8", "fp8_config: {backend: MSAMP}\n")},
    {"acc-fp8-capability", accelerate("'NO'", "fp8", "")},
    {"acc-fp8-config", accelerate("'NO'", "bf16", "kwargs_handlers: {FP8RecipeKwargs: {}}\n")},
    {"acc-fp8-recipe", accelerate("'NO'", "fp8", "fp8_config: {backend: TE, fp8_format: E5M3}\n")},
    {"acc-fp8-recipe-deprecated", accelerate("'NO'", "fp8", "fp8_config: {backend: TE, amax_history_length: 16}\n")},
    {"acc-precision-name", accelerate("'NO'", "float16", "")},
    {"acc-ram-efficient",
     accelerate("FSDP", "fp8",
                "fp8_config: {backend: AO}\nfsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: true}\n")},
    {"acc-sync-states",
     accelerate(
         "FSDP", "bf16",
         "fsdp_config: {fsdp_version: 1, fsdp_cpu_ram_efficient_loading: true, fsdp_sync_module_states: false}\n")},
    {"pl-fused-clip",
     {"pl.yaml",
      "trainer: {precision: bf16-mixed, gradient_clip_val: 1.0, max_steps: 5}\n"
      "optimizer: {class_path: torch.optim.AdamW, init_args: {fused: true}}\n"}},
    {"acc-upcast", accelerate("FSDP", "bf16", "fsdp_config: {fsdp_version: 1}\n")},
    {"apex-removed", Sample{"apex.yaml", "opt_level: O2\n"}},
    {"axo-adapter", axolotl("bf16: true\nadapter: loraa\n")},
    {"axo-all-gather", axolotl("bf16: true\nfp8: true\nfp8_enable_fsdp_float8_all_gather: true\nfsdp_version: "
                               "1\nfsdp_config: {offload_params: false}\n")},
    {"axo-amp-device", axolotl("bf16: true\n")},
    {"axo-attention-device", axolotl("fp16: true\nsage_attention: true\n")},
    {"axo-attention-name", axolotl("bf16: true\nattn_implementation: flash\n")},
    {"axo-better-transformer", axolotl("bf16: true\nflash_optimum: true\n")},
    {"axo-deepspeed-and-fsdp",
     axolotl("bf16: true\ndeepspeed: base.json\nfsdp_config: {offload_params: false}\nfsdp: [full_shard]\n")},
    {"axo-fp32-norms", axolotl("bf16: true\nfp32_norms: true\n")},
    {"axo-fp8", axolotl("bf16: true\nfp8: true\n")},
    {"axo-fp8-slow", axolotl("bf16: true\nfp8: true\n")},
    {"axo-npu", axolotl("bf16: true\ntf32: true\n")},
    {"axo-optimizer", axolotl("bf16: true\noptimizer: muon\ndeepspeed: base.json\n")},
    {"axo-packing", axolotl("bf16: true\nsample_packing: true\nattn_implementation: sdpa\n")},
    {"axo-q-galore", axolotl("bf16: false\noptimizer: q_galore_adamw8bit\n")},
    {"axo-qlora", axolotl("bf16: true\nadapter: qlora\nload_in_8bit: true\n")},
    {"bf16-setup", trainer("bf16: true\n")},
    {"bf16-slow", trainer("bf16: true\n")},
    {"bnb-compute", llamafactory("lora", "quantization_bit: 4\n")},
    {"compile-differs", trainer("torch_compile: true\nbf16: true\n")},
    {"config-refused", deepspeed(R"({"fp16": {"enabled": true, "loss_scale_window": "many"}})")},
    {"ds-accumulation-name", deepspeed(R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "float8"}})")},
    {"ds-accumulation-warning", deepspeed(
                                    R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"},
              "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 1}})")},
    {"ds-amp", deepspeed(R"({"amp": {"enabled": true}, "fp16": {"enabled": true}})")},
    {"ds-both", deepspeed(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})")},
    {"ds-communication", deepspeed(R"({"bf16": {"enabled": true}, "communication_data_type": "float8"})")},
    {"ds-masters", deepspeed(R"({"bf16": {"enabled": true, "bf16_optimizer_states": true}})")},
    {"ds-max-grad-norm",
     deepspeed(R"({"fp16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1}}})")},
    {"ds-mismatch", trainer("bf16: true\ngradient_accumulation_steps: 2\ndeepspeed: base.json\n")},
    {"ds-mix", deepspeed(
                   R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
              "zero_optimization": {"stage": 0}})")},
    {"ds-outer-autocast",
     deepspeed(R"({"bf16": {"enabled": true}, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}})")},
    {"ds-scaler-value", deepspeed(R"({"fp16": {"enabled": true, "loss_scale": -1}})")},
    {"ds-type", deepspeed(R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 1}})")},
    {"eval-differs", trainer("bf16_full_eval: true\nbf16: true\n")},
    {"fp16-needs-gpu", trainer("fp16: true\n")},
    {"fp8-no-faster", llamafactory("full", "fp8: true\n")},
    {"fp16-support", Sample{"torch.yaml", "autocast: {dtype: float16}\n"}},
    {"fsdp1-uniform", axolotl("bf16: true\nadapter: qlora\nload_in_4bit: true\nfsdp: [full_shard]\n")},
    {"grad-accum-differs", deepspeed(
                               R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"},
              "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 1}})")},
    {"gradients-zero", Sample{"torch.yaml", "autocast: {dtype: float16}\n"}},
    {"kohya-latents", Sample{"kohya.toml",
                             "pretrained_model_name_or_path = \"sdxl.safetensors\"\nnetwork_module = "
                             "\"networks.lora\"\nmax_train_steps = 10\nmixed_precision = \"fp16\"\nsdxl = true\n"}},
    {"lf-fp8-disabled", llamafactory("full", "fp8: true\n")},
    {"lf-galore", llamafactory("lora", "bf16: true\nuse_galore: true\n")},
    {"lf-galore-memory", llamafactory("full", "bf16: true\nuse_galore: true\n")},
    {"lf-method", llamafactory("qlora", "bf16: true\n")},
    {"lf-mixed", llamafactory("full", "")},
    {"lf-pissa", llamafactory("full", "bf16: true\npissa_init: true\n")},
    {"lf-pure-bf16", Sample{"lf.yaml", "stage: sft\nfinetuning_type: full\npure_bf16: true\ndo_train: true\n"}},
    {"lf-quantised", llamafactory("full", "bf16: true\nquantization_bit: 4\n")},
    {"lf-upcast",
     Sample{"lf.yaml", "stage: sft\nfinetuning_type: lora\nquantization_bit: 4\ndo_train: true\nbf16: true\n"}},
    {"long-context-bf16", deepspeed(R"({"bf16": {"enabled": true}})")},
    {"loss-not-decreasing", Sample{"torch.yaml", "autocast: {dtype: float16}\n"}},
    {"megatron-cross-entropy",
     Sample{"run.args", "--bf16 --fp16-lm-cross-entropy --micro-batch-size 2 --num-layers 2\n"}},
    {"megatron-fp4-fp8",
     Sample{"run.args", "--bf16 --fp8-format e4m3 --fp4-format e2m1 --micro-batch-size 2 --num-layers 2\n"}},
    {"megatron-main-gradients", Sample{"run.args",
                                       "--bf16 --accumulate-allreduce-grads-in-fp32 --main-grads-dtype bf16 "
                                       "--use-precision-aware-optimizer --micro-batch-size 2 --num-layers 2\n"}},
    {"megatron-optimizer-dtype",
     Sample{"run.args", "--bf16 --exp-avg-dtype bf16 --micro-batch-size 2 --num-layers 2\n"}},
    {"megatron-residual", Sample{"run.args", "--fp32-residual-connection --micro-batch-size 2 --num-layers 2\n"}},
    {"memory-large", axolotl("bfloat16: true\n")},
    {"model-vocabulary", deepspeed(R"({"bf16": {"enabled": true}, "vocabulary_size": 50257})")},
    {"moments-frozen", deepspeed(
                           R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
              "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
               "optimizer": {"type": "AdamW"}})")},
    {"neox-conflict", Sample{"neox.yml",
                             "{\"num_layers\": 2, \"pipe_parallel_size\": 1, \"train_batch_size\": 4, \"precision\": "
                             "\"fp16\", \"bf16\": {\"enabled\": true}}"}},
    {"not-reproducible", deepspeed(R"({"bf16": {"enabled": true}, "optimizer": {"type": "OneBitAdam"}})")},
    {"precision-ignored", axolotl("bf16: true\nfp16: true\n")},
    {"pure-quantised", llamafactory("full", "bf16: true\nquantization_bit: 4\n")},
    {"quantised-base", axolotl("bf16: true\nadapter: lora\nload_in_4bit: true\n")},
    {"rollout-differs",
     Sample{"verl.yaml", "actor_rollout_ref: {actor: {fsdp_config: {fsdp_size: -1}}, rollout: {dtype: float16}}\n"}},
    {"scale-static", deepspeed(R"({"fp16": {"enabled": true, "loss_scale": 128}})")},
    {"setting-ignored", deepspeed(R"({"fp16": {"enabled": true, "windo": 3}})")},
    {"te-capability", accelerate("'NO'", "fp8", "")},
    {"tf-apex-bf16", trainer("bf16: true\nhalf_precision_backend: apex\n")},
    {"tf-backend-deprecated", trainer("fp16: true\nfp16_backend: amp\n")},
    {"tf-both", trainer("fp16: true\nbf16: true\n")},
    {"tf-fsdp-config", Sample{"hf.yaml", "bf16: true\noutput_dir: out\nfsdp_config: {fsdp_version: 2}\n"}},
    {"tf-tf32", trainer("tf32: true\n")},
    {"torch-fused-foreach",
     Sample{"torch.yaml", "autocast: {dtype: float16}\ngrad_scaler: true\nfused: true\nforeach: true\n"}},
    {"torch-scaler-value", Sample{"torch.yaml", "autocast: {dtype: float16}\ngrad_scaler: {growth_factor: 0.5}\n"}},
    {"trl-unknown-arguments",
     Sample{"trl.yaml", "model_name_or_path: m\ndataset_name: d\nmax_length: 512\ntorch_dtype: bfloat16\n"}},
    {"unscale-bf16", trainer("fp16: true\n")},
    {"unscale-fp16", trainer("fp16: true\n")},
    {"where-masters", trainer("bf16: true\n")},
};
/// Entries whose command imports a config, but whose causes are not found in a config alone. They depend on the
/// program, on the release or on training.
const std::set<std::string> without_sample{"ds-safe-modules", "flash-dtype", "flash-warning", "tf32-mix"};
const Sample other_sample{"ds.json", R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2}})"};

std::string replaced(std::string text, const std::string& word, const std::string& by) {
    const std::size_t at = text.find(word);
    return at == std::string::npos ? text : text.replace(at, word.size(), by);
}

/// Runs a command line of a shell in which $M is the program. `command` may contain redirections and pipes.
Outcome shell(const std::string& command) {
    write("script", "M='" MACHEPS_PROGRAM "'\n" + command + "\n");
    const std::string line = "cd '" + scratch().string() + "' && bash script >out.txt 2>err.txt </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(scratch() / "out.txt"),
            contents(scratch() / "err.txt")};
}

/// Returns the rules of an entry.
std::set<std::string> rules_of(const json& entry) {
    std::set<std::string> rules;
    for (const json& cause : entry["causes"]) rules.insert(cause["rules"].begin(), cause["rules"].end());
    return rules;
}

/// Returns whether the import reports one of the rules. A rule "*/x" is the rule x of any framework.
bool reports_one_of(const json& result, const std::set<std::string>& rules) {
    return std::any_of(result["findings"].begin(), result["findings"].end(), [&](const json& finding) {
        const std::string rule = finding["rule"];
        return rules.contains(rule) || rules.contains("*" + rule.substr(rule.find('/')));
    });
}

}  // namespace

TEST_CASE("why explains a message: causes, remedies and a command", "[program][symptoms]") {
    const Outcome outcome = run("why 'ValueError: Attempting to unscale FP16 gradients.'");
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK(
        outcome.out.starts_with("unscale-fp16: GradScaler refuses fp16 gradients\n"
                                "matched (exact): Attempting to unscale FP16 gradients.\n"
                                "printed by: torch/amp/grad_scaler.py (ValueError)\n"
                                "causes, the most frequent first:\n  1. "));
    CHECK(says(outcome.out, "findings transformers/low-weights-under-scaler, "));
    CHECK(says(outcome.out, "\ntry:\n  - "));
    CHECK(says(outcome.out, "\nsee it here: macheps policy import CONFIG --checkpoint-dtype fp16\n"));
    CHECK(run("why Attempting to unscale FP16 gradients.").out ==
          run("why 'Attempting to unscale FP16 gradients.'").out);
    fs::remove_all(scratch());
}

TEST_CASE("why --json has the same entries as the text, and --list has all", "[program][symptoms]") {
    const json found = json::parse(run("why --json 'grad_norm is not finite'").out);
    REQUIRE(found["entries"].size() >= 1);
    const json& entry = found["entries"][0];
    CHECK(entry["id"] == "verl-grad");
    CHECK(entry["match"] ==
          json({{"kind", "exact"}, {"text", "grad_norm is not finite"}, {"matched", "grad_norm is not finite"}}));
    CHECK(entry["causes"][0]["verdict"] == "open");
    CHECK(found["nearest"].empty());
    const json list = json::parse(run("why --list --json").out);
    const std::string table = run("why --list").out;
    CHECK(list.size() >= 65);
    CHECK(std::size_t(std::count(table.begin(), table.end(), '\n')) == list.size() + 1);
    for (const json& one : list) {
        CAPTURE(one["id"]);
        CHECK(says(table, "\n" + one["id"].get<std::string>() + " "));
        CHECK(json::parse(run("why --json " + one["id"].get<std::string>() + " nothing").out).contains("entries"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("why reads stdin, and refuses an empty text", "[program][symptoms]") {
    write("log", "step 1\n\x1b[31mRuntimeError: FlashAttention only support fp16 and bf16\ndata type\x1b[0m\n");
    const Outcome outcome = shell("$M why - <log");
    CHECK(outcome.code == 0);
    CHECK(outcome.out.starts_with("flash-dtype: "));
    for (const char* arguments : {"why", "why ''", "why ' '", "why -"}) {
        CAPTURE(arguments);
        const Outcome empty = run(arguments);
        CHECK(empty.code == 2);
        CHECK(empty.err == "macheps: TEXT: the text is empty (pass an error message or a symptom, or use --list)\n");
    }
    fs::remove_all(scratch());
}

TEST_CASE("why has exit code 1 and lists five titles if no entry is similar", "[program][symptoms]") {
    const Outcome outcome = run("why convert a checkpoint to fp16");
    CHECK(outcome.code == 1);
    CHECK(outcome.out.starts_with("no entry is similar to this text; the nearest entries are:\n  "));
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 7);
    const Outcome as_json = run("why --json convert a checkpoint to fp16");
    CHECK(as_json.code == 1);
    const json result = json::parse(as_json.out);
    CHECK(result["entries"].empty());
    CHECK(result["nearest"].size() == 5);
    const Outcome none = run("why xyz");
    CHECK(none.code == 1);
    CHECK(none.out == "no entry is similar to this text\n`macheps why --list` lists all entries\n");
    CHECK(json::parse(run("why --json xyz").out)["nearest"].empty());
    fs::remove_all(scratch());
}

TEST_CASE("why refuses options that do not fit together, bad configs and a full disk", "[program][symptoms]") {
    write("bad.json", "{]");
    struct Case {
        const char* arguments;
        int code;
        const char* says;
    };
    for (const auto& [arguments, code, words] :
         std::vector<Case>{{"why --list nan", 2, "excludes --list"},
                           {"why nan --gpu h100", 2, "--gpu: this option applies to a config"},
                           {"why nan loss --config missing.json", 3, "missing.json"},
                           {"why nan loss --config bad.json", 3, "bad.json"},
                           {"why --nosuch", 2, "unknown option"}}) {
        CAPTURE(arguments);
        const Outcome outcome = run(arguments);
        CHECK(outcome.code == code);
        CHECK(outcome.out.empty());
        CHECK(says(outcome.err, words));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    for (const char* arguments : {"why --list", "why loss is nan", "why xyz", "why --list --json"})
        CHECK(shell("$M " + std::string(arguments) + " >/dev/full").code == 5);
    fs::remove_all(scratch());
}

TEST_CASE("why --config marks the causes that the config has, and those that it excludes", "[program][symptoms]") {
    write("ds.json", R"({"fp16": {"enabled": true, "min_loss_scale": 1}, "zero_optimization": {"stage": 2}})");
    write("bf16.json", R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})");
    const std::string text = "why 'Current loss scale already at minimum' --config ";
    const Outcome fp16 = run(text + "ds.json");
    CHECK(fp16.code == 0);
    CHECK(says(fp16.out, "  5. PRESENT: fp16.min_loss_scale is set"));
    CHECK(says(fp16.out, "deepspeed/floor-raises: "));
    CHECK(says(run(text + "bf16.json").out, "  5. EXCLUDED: fp16.min_loss_scale is set"));
    CHECK(says(run(text + "bf16.json").out, "the import with DeepSpeed "));
    CHECK_FALSE(says(run("why 'Current loss scale already at minimum'").out, "EXCLUDED"));
    const json causes = json::parse(run(text + "bf16.json --json").out)["entries"][0]["causes"];
    CHECK(causes[0]["verdict"] == "open");
    CHECK(causes[4]["verdict"] == "excluded");
    fs::remove_all(scratch());
}

TEST_CASE("the command of every entry runs, and its import reports a rule of the entry", "[program][symptoms]") {
    REQUIRE(run(std::string(quick) + "--policy fp32 -q --out RUN").code == 0);
    write("base.json",
          R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 4})");
    write("plain.json", R"({"bf16": {"enabled": true}})");
    int commands = 0;
    std::set<std::string> unused;
    for (const auto& [id, sample] : samples) unused.insert(id);
    for (const json& entry : json::parse(run("why --list --json").out)) {
        const std::string id = entry["id"], command = entry["command"];
        if (command.empty()) continue;
        REQUIRE(command.starts_with("macheps "));
        ++commands;
        unused.erase(id);
        const Sample& sample = samples.contains(id) ? samples.at(id) : other_sample;
        CHECK((samples.contains(id) || without_sample.contains(id) || !says(command, "CONFIG")));
        write(sample.file, sample.text);
        const std::string words = replaced(command.substr(8), "CONFIG", sample.file);
        const Outcome outcome = run(words);
        CAPTURE(id, words, sample.text, outcome.out, outcome.err);
        CHECK((outcome.code == 0 || outcome.code == 1));
        CHECK_FALSE(outcome.out.empty());
        if (!samples.contains(id)) continue;
        CHECK(reports_one_of(json::parse(run(words + " --json").out), rules_of(entry)));
    }
    CHECK(unused.empty());
    CHECK(commands >= 50);
    fs::remove_all(scratch());
}

}  // namespace why_test
