// SPDX-License-Identifier: Apache-2.0
// Tests `train --config` on published fp8 configs and on the samples in the documentation of frameworks. For each
// config, the program must end with a report, or with an error that gives the framework's reason.
#include "tests/json.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace fp8_config_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The command for training a small llama. All sides of its linears are multiples of 32.
constexpr const char* small =
    "train --model llama --steps 2 --layers 2 --width 32 --heads 2 --kv-heads 2 --vocabulary 64 --context "
    "8 "
    "--batch 4 --eval-batches 1 --warmup 1 --probe-every 0 -q --force --out run ";

Outcome train(const std::string& file, const std::string& more) {
    return run(std::string(small) + "--gpu h100 --config '" + file + "' " + more);
}

/// Returns the manifest's entry for the policy of the run that is not fp32.
json policy_of_run() {
    const json policies = json::parse(contents(scratch() / "run/manifest.json")).at("policies");
    for (const auto& [name, policy] : policies.items()) {
        if (name != "fp32") return policy;
    }
    return {};
}

/// Returns the config files that mention fp8 in the file name, or that request fp8 in the text outside comments.
std::vector<fs::path> fp8_configs(const fs::path& folder) {
    const std::string asks("(^|\n)[^#\n]*(fp8:[ ]*true|mixed_precision:[ ]*['\"]?fp8|fp8_config)");
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const std::string ending = entry.path().extension().string();
        // Skip the folder `more`. Its configs belong to frameworks without an importer.
        if (fs::relative(entry.path(), folder).begin()->string() == "more") continue;
        if (!entry.is_regular_file() || (ending != ".yaml" && ending != ".yml" && ending != ".json")) continue;
        const bool is_named = entry.path().filename().string().find("fp8") != std::string::npos;
        if (is_named || finds(contents(entry.path()), asks)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

TEST_CASE("every published fp8 config trains, or is refused with its framework's reason", "[program][config][fp8]") {
    if (shared_folder().empty() || !fs::is_directory(shared_folder() / "configs"))
        SKIP_TEST("no folder of published configs");
    struct Case {
        const char* file;
        const char* more;
        int code;
        const char* says;
        bool is_low = true;            ///< whether the imported policy has an fp8 recipe
        const char* beside = nullptr;  ///< a published file, copied to the path that the config names
    };
    const char *const transformers_four = "--framework-version transformers=4.57",
                      *const deepspeed_file = "deepspeed/llama-factory__deepspeed__ds_z3_fp8_config.json";
    const std::vector<Case> cases{
        {"accelerate__config_yaml_templates__fp8.yaml", "", 0, "accelerate/most-recent"},
        {"accelerate__test_configs__0_34_0_fp8.yaml", "", 1, "invalid truth value"},
        {"axolotl__llama-3__3b-fp8-fsdp2.yaml", "", 0, "left out: lm_head: lm_head: it is the last Linear"},
        {"llama-factory__extras__fp8__llama3_fp8_deepspeed_sft.yaml", "", 1, "llamafactory/missing-file"},
        {"llama-factory__extras__fp8__llama3_fp8_deepspeed_sft.yaml", "", 0, "llamafactory/fp8-dropped", false,
         deepspeed_file},
        {"llama-factory__extras__fp8__llama3_fp8_deepspeed_sft.yaml", transformers_four, 0,
         "9 of 11 linears in 8 bits or fewer", true, deepspeed_file},
        // This config is for DeepSpeed and does not mention fp8. LLaMA-Factory requests fp8 in its own config.
        {"llama-factory__deepspeed__ds_z3_fp8_config.json", "", 0, "deepspeed/auto", false},
        {"llama-factory__extras__fp8__llama3_fp8_fsdp_sft.yaml", "", 1, "fsdp_transformer_layer_cls_to_wrap"},
        {"llama-factory__extras__fp8__llama3_fp8_fsdp_sft.yaml", transformers_four, 0, "llamafactory/fp8-as-executed"},
    };
    const std::vector<fs::path> files = fp8_configs(shared_folder() / "configs");
    for (const fs::path& file : files) {
        int tried = 0;
        for (const Case& c : cases) {
            if (file.filename() != c.file) continue;
            ++tried;
            if (c.beside != nullptr) {
                fs::create_directories(scratch() / "examples/deepspeed");
                fs::copy_file(shared_folder() / "configs" / c.beside,
                              scratch() / "examples/deepspeed/ds_z3_fp8_config.json");
            }
            const Outcome outcome = train(file.string(), c.more);
            CAPTURE(c.file, c.more, outcome.err);
            CHECK(outcome.code == c.code);
            CHECK(holds(outcome.err, c.says));
            CHECK(fs::exists(scratch() / "run/report.html") == (c.code == 0));
            if (c.code == 0) CHECK(holds(policy_of_run().at("toml"), "recipe      = ") == c.is_low);
            if (c.code == 1) CHECK(holds(outcome.err, "config has an error"));
            fs::remove_all(scratch());
        }
        CAPTURE(file.string());
        CHECK(tried > 0);
    }
    CHECK(files.size() >= 6);
}

TEST_CASE("the documented fp8 samples train, or are refused with their framework's reason", "[program][config][fp8]") {
    struct Case {
        const char *name, *text, *more;
        int code;
        const char* says;
    };
    const std::string fsdp_head =
        "{compute_environment: LOCAL_MACHINE, distributed_type: FSDP, mixed_precision: fp8, num_processes: 8,\n"
        " fp8_config: {backend: AO, enable_fsdp_float8_all_gather: true, pad_inner_dim: true},\n"
        " fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: ";
    const std::string sharded = fsdp_head + "false, fsdp_reshard_after_forward: true}}\n",
                      loading = fsdp_head + "true, fsdp_reshard_after_forward: true}}\n";
    for (const Case& c : {
             Case{"accelerate.yaml", sharded.c_str(), "", 0, "9 of 11 linears in 8 bits or fewer"},
             Case{"accelerate.yaml", sharded.c_str(), "--ranks 4", 0, "accelerate/fp8-layers"},
             Case{"loading.yaml", loading.c_str(), "", 1, "cpu_ram_efficient_loading"},
             Case{"axolotl.yaml",
                  "{base_model: my/model, bf16: auto, tf32: auto, fp8: true, fp8_enable_fsdp_float8_all_gather: true, "
                  "micro_batch_size: 1}\n",
                  "", 1, "fsdp_version"},
             Case{"lf.yaml", "{stage: sft, do_train: true, finetuning_type: full, fp8: true, bf16: true}\n",
                  "--framework-version transformers=4.57", 0, "llamafactory/fp8-as-executed"},
             Case{"lf.yaml", "{stage: sft, do_train: true, finetuning_type: lora, quantization_bit: 4, fp8: true}\n",
                  "", 1, "llamafactory/fp8-quantised"},
             Case{"te.yaml",
                  "{compute_environment: LOCAL_MACHINE, distributed_type: \"NO\", mixed_precision: fp8, num_processes: "
                  "1, "
                  "fp8_config: {backend: TE}}\n",
                  "", 0, "accelerate/most-recent"},
             Case{"msamp.yaml",
                  "{compute_environment: LOCAL_MACHINE, distributed_type: \"NO\", mixed_precision: fp8, num_processes: "
                  "1, "
                  "fp8_config: {backend: MSAMP}}\n",
                  "", 1, "does not emulate it"},
             Case{"megatron.args", "--num-layers 2 --bf16 --fp8-format hybrid\n", "", 0,
                  "left out: lm_head: output_layer: the output layer is not a linear"},
             Case{"megatron.args", "--num-layers 2 --bf16 --fp8-format hybrid\n", "--hidden 40", 3,
                  "transformer_engine/pytorch/utils.py"},
         }) {
        write(c.name, c.text);
        const Outcome outcome = train(c.name, c.more);
        CAPTURE(c.name, c.more, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(holds(outcome.err, c.says));
        CHECK(fs::exists(scratch() / "run/report.html") == (c.code == 0));
        fs::remove_all(scratch());
    }
}

TEST_CASE("a run reports how many linears are in fp8 and which are left out, and its rows have the counts",
          "[program][config][fp8]") {
    write("te.toml",
          "extends = \"amp-bf16\"\n[[rule]]\nsites = \"{block.*.{attn.qkv,attn.proj,mlp.up,mlp.down},lm_head}\"\n"
          "filter = \"accelerate-ao\"\nforward = { a = \"e4m3fn/tensor\", b = \"e4m3fn/tensor\" }\n");
    const Outcome outcome = run(std::string(quick) + "--policy ./te.toml -q --out run");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(holds(outcome.err,
                "macheps: te: 3 of 5 linears in 8 bits or fewer\n"
                "  left out: block.0.attn.qkv: transformer.h.0.attn.c_attn: it is the first Linear\n"
                "  left out: lm_head: lm_head: it is the last Linear\n"));
    const std::string rows = contents(scratch() / "run/runs.csv");
    CHECK(holds(rows, ",low_linears,asked_linears,stress\n"));
    CHECK(finds(rows, "\nte/0,.*,3,5,\n"));
    CHECK(finds(rows, "\nfp32/0,.*,0,0,\n"));
    const Outcome explained = run("policy explain ./te.toml --layers 1");
    CHECK(holds(explained.out, "linears      3 of 5 in 8 bits or fewer\n"));
    CHECK(holds(explained.out, "left out     lm_head: lm_head: it is the last Linear\n"));
    const json document = json::parse(run("policy explain ./te.toml --layers 1 --json").out);
    CHECK(document.at("linears") == json{{"low", 3}, {"asked", 5}});
    CHECK(document.at("left_out").size() == document.at("left_out_why").size());
    fs::remove_all(scratch());
}

}  // namespace fp8_config_test
