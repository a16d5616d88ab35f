// SPDX-License-Identifier: Apache-2.0
// Tests the finding that a config runs a bf16 checkpoint in fp16: how the dtype of the checkpoint becomes known, and
// the cases without this finding.
#include "experiments/configs/checkpoint_range.hpp"
#include "tests/configs/import_case.hpp"

#include <set>
#include <string>

namespace checkpoint_range_test {

using namespace macheps;
using namespace macheps::configs;

namespace {

/// Imports a config. Returns its finding about a bf16 checkpoint in fp16, or null. If `checkpoint` is empty, the option
/// --checkpoint-dtype is not given.
const Finding* finding_of(ImportResult& result, const char* framework, const std::string& text,
                          const char* checkpoint = "", const char* device = "h100") {
    const test::ConfigFolder folder;
    ImportOptions options;
    options.framework = framework;
    options.device = device;
    if (*checkpoint != '\0') {
        options.checkpoint_dtype = checkpoint;
        options.checkpoint_is_default = false;
    }
    const bool is_args = options.framework == "megatron";
    result = import_config(std::vector{folder.write(is_args ? "run.args" : "config.yaml", text)}, options);
    return test::find_rule(result, fmt::format("{}/bf16-checkpoint-in-fp16", framework), 'W');
}

}  // namespace

TEST_CASE("a config that runs a bf16 checkpoint in fp16 gives a finding for every framework", "[import]") {
    struct Case {
        const char *framework, *text, *checkpoint;
        bool speaks;
        const char* why;
    };
    const Case cases[] = {
        {"transformers", "{fp16: true, output_dir: o}", "bf16", true, "the option says so"},
        {"transformers", "{fp16: true, output_dir: o}", "fp32", false, "the option says otherwise"},
        {"transformers", "{fp16: true, output_dir: o}", "", false, "the dtype is not known"},
        {"transformers", "{bf16: true, output_dir: o}", "bf16", false, "it runs in bf16"},
        {"transformers", "{output_dir: o, learning_rate: 1.0e-4}", "bf16", false, "it runs in its stored format"},
        {"transformers", "{fp16_full_eval: true, output_dir: o}", "bf16", true, "only evaluation is in fp16"},
        {"transformers", "{fp16: true, output_dir: o, torch_dtype: bfloat16}", "", true, "a dtype key"},
        {"transformers", "{fp16: true, output_dir: o, model_name_or_path: Qwen/Qwen2.5-7B}", "", true,
         "a model's name"},
        {"transformers", "{fp16: true, output_dir: o, model_name_or_path: Qwen/Qwen2.5-7B}", "fp32", false,
         "the option takes precedence over a name"},
        {"llamafactory",
         "{model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct, stage: sft, do_train: true, finetuning_type: full, "
         "fp16: true}",
         "", true, "a model's name"},
        {"llamafactory", "{model_name_or_path: gpt2, stage: sft, do_train: true, finetuning_type: full, fp16: true}",
         "", false, "a model whose format is not known"},
        {"axolotl", "{base_model: google/gemma-3-4b-it, fp16: true, micro_batch_size: 1}", "", true, "a model's name"},
        {"axolotl", "{base_model: google/gemma-3-4b-it, bf16: true, micro_batch_size: 1}", "", false, "bf16"},
        {"accelerate", "{compute_environment: LOCAL_MACHINE, mixed_precision: fp16, num_processes: 1}", "bf16", true,
         "the option"},
        {"deepspeed", "{fp16: {enabled: true}, zero_optimization: {stage: 2}}", "bf16", true,
         "the engine casts the model"},
        {"deepspeed", "{bf16: {enabled: true}, zero_optimization: {stage: 2}}", "bf16", false, "bf16"},
        {"torch", "{autocast: {dtype: float16}, grad_scaler: {}, model_dtype: bfloat16}", "", true, "a dtype key"},
        {"torch", "{autocast: {dtype: float16}, grad_scaler: {}}", "bf16", true, "the option"},
        {"apex", "{opt_level: O2}", "bf16", true, "the option"},
        {"megatron", "--fp16 --num-layers 2 --load checkpoints/Mistral-7B-v0.1\n", "", true, "a model's name"},
        {"megatron", "--bf16 --num-layers 2 --load checkpoints/Mistral-7B-v0.1\n", "", false, "bf16"},
        {"nanogpt", "{dtype: float16, device: cuda, init_from: gpt2}", "", false, "GPT-2 is fp32"},
        {"nanogpt", "{dtype: float16, device: cuda, init_from: gpt2}", "bf16", true, "the option"},
        {"longspec", "{ds_cfg: {fp16: {enabled: true}}, torch_dtype: bfloat16}", "", true, "a dtype key"},
        {"longspec", "{ds_cfg: {fp16: {enabled: true}}, model_name_or_path: models/Qwen2-7B-Instruct}", "", true,
         "a model's name"},
        {"lightning", "{trainer: {precision: 16-mixed}}", "bf16", true, "the option"},
        {"lightning", "{checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B, precision: 16-mixed}", "", true,
         "a model's name"},
        {"composer", "{max_duration: 1ep, precision: amp_fp16}", "bf16", true, "the option"},
        {"kohya", "{pretrained_model_name_or_path: m, mixed_precision: fp16}", "bf16", true, "the option"},
        {"torchtitan", "{model: {flavor: 8B}}", "bf16", false, "no key of torchtitan selects fp16"},
        {"trl", "{model_name_or_path: Qwen/Qwen2.5-7B, dataset_name: d, fp16: true}", "", true, "a model's name"},
        {"trl", "{model_name_or_path: Qwen/Qwen2.5-7B, dataset_name: d}", "", false, "bf16 is on"},
        {"verl",
         "{actor_rollout_ref: {model: {path: Qwen/Qwen2.5-7B}, actor: {fsdp_config: {mixed_precision: {param_dtype: "
         "fp16}}}}}",
         "", true, "a model's name"},
        {"verl", "{actor_rollout_ref: {model: {path: Qwen/Qwen2.5-7B}}}", "", false, "bf16 is the default"},
        {"gpt-neox", "{num_layers: 2, train_batch_size: 4, precision: fp16}", "bf16", true, "the option"},
        {"gpt-neox", "{num_layers: 2, train_batch_size: 4, precision: fp16}", "", false, "the dtype is not known"},
    };
    // torchtitan never runs in fp16, and torchtune refuses it.
    std::set<std::string> frameworks_seen{"torchtitan", "torchtune"};
    for (const Case& one : cases) {
        CAPTURE(one.framework, one.text, one.checkpoint, one.why);
        ImportResult result;
        const Finding* found = finding_of(result, one.framework, one.text, one.checkpoint);
        CHECK((found != nullptr) == one.speaks);
        if (one.speaks) frameworks_seen.insert(one.framework);
        if (found == nullptr) continue;
        CHECK(found->message.find("65504") != std::string::npos);
        CHECK_FALSE(found->instead.empty());
        CHECK(found->key.empty() == (*one.checkpoint != '\0'));
    }
    CHECK(frameworks_seen.size() == frameworks().size());
}

TEST_CASE("if the dtype is inferred from the name of the model, the finding says so and gives the source", "[import]") {
    ImportResult result;
    const Finding* found = finding_of(result, "llamafactory",
                                      "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\ndo_train: "
                                      "true\nfinetuning_type: full\nfp16: true\n");
    REQUIRE(found != nullptr);
    CHECK(found->message.find("Llama 3 models were trained in bf16") != std::string::npos);
    CHECK(found->message.find("inferred only from the name meta-llama/Meta-Llama-3-8B-Instruct") != std::string::npos);
    CHECK(found->message.find("huggingface.co/docs/transformers/model_doc/llama3") != std::string::npos);
    CHECK(found->key == "model_name_or_path");
    CHECK(found->place.line == 1);
    // On a GPU without bf16, the finding suggests fp32.
    found = finding_of(result, "transformers", "{fp16: true, output_dir: o}", "bf16", "t4");
    REQUIRE(found != nullptr);
    CHECK(found->instead.starts_with("fp16: false, to train in fp32, because t4 has no bf16"));
    found = finding_of(result, "transformers", "{fp16: true, output_dir: o}", "bf16", "a100");
    REQUIRE(found != nullptr);
    CHECK(found->instead.starts_with("bf16: true with fp16: false, to train in bf16"));
}

TEST_CASE("names of models that were trained in bf16 are recognised, and other names are not", "[import]") {
    struct Case {
        const char *name, *family;  ///< null: not recognised
    };
    const Case cases[] = {
        {"meta-llama/Meta-Llama-3-8B-Instruct", "Llama 3"},
        {"meta-llama/Llama-3.2-1B", "Llama 3"},
        {"NousResearch/Llama-2-7b-hf", "Llama 2"},
        {"codellama/CodeLlama-13b-hf", "Code Llama"},
        {"TinyLlama/TinyLlama_v1.1", "TinyLlama"},
        {"mistralai/Mistral-7B-v0.1", "Mistral 7B"},
        {"mistralai/Mistral-Nemo-Base-2407", "Mistral Nemo"},
        {"Qwen/Qwen2-7B-Instruct", "Qwen2"},
        {"Qwen/Qwen2.5-0.5B", "Qwen2.5"},
        {"/models/Qwen3-8B/", "Qwen3"},
        {"google/gemma-7b-it", "Gemma"},
        {"google/gemma-2-9b-it", "Gemma 2"},
        {"google/gemma-3-4b-it", "Gemma 3"},
        {"HuggingFaceTB/SmolLM2-135M", "SmolLM2"},
        {"baichuan-inc/Baichuan2-13B-Chat", "Baichuan 2"},
        {"baichuan-inc/Baichuan-13B-Chat", nullptr},
        {"google/flan-t5-xl", "T5"},
        {"t5-large", "T5"},
        {"/in/flux1-dev.safetensors", "FLUX.1"},
        {"black-forest-labs/FLUX.1-schnell", "FLUX.1"},
        {"influx1", nullptr},
        {"google/mt5-base", "T5"},
        {"gpt2", nullptr},
        {"openai-community/gpt2-xl", nullptr},
        {"EleutherAI/pythia-160m", nullptr},
        {"facebook/opt-125m", nullptr},
        {"bigscience/bloom-560m", nullptr},
        {"google-bert/bert-base-uncased", nullptr},
        {"my/model", nullptr},
        {"Qwen/Qwen-7B", nullptr},
        {"openlm-research/open_llama_3b_v2", nullptr},
        {"", nullptr},
        {"/", nullptr},
    };
    std::set<std::string_view> seen;
    for (const Case& one : cases) {
        CAPTURE(one.name);
        const KnownModel* found = find_bf16_model(one.name);
        CHECK((found != nullptr) == (one.family != nullptr));
        if (found == nullptr || one.family == nullptr) continue;
        CHECK(found->family == one.family);
        CHECK_FALSE(found->source.empty());
        seen.insert(found->family);
    }
    CHECK(seen.size() == bf16_models().size());  // each row of bf16_models() matches one of the names above
    CHECK(find_bf16_model(std::string(100'000, 'a') + "llama-3") == nullptr);
}

}  // namespace checkpoint_range_test
