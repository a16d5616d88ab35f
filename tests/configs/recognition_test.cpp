// SPDX-License-Identifier: Apache-2.0
// Tests how the framework of a config is recognised: by marks and by the share of known keys. A config of a framework
// that is not read is refused by name. Also tests the import of command lines.
#include "core/error.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/recognition/marks.hpp"
#include "experiments/configs/recognition/recognise.hpp"
#include "tests/configs/import_case.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace recognition_test {

using namespace macheps;
using namespace macheps::configs;
using files::ConfigValue;
using test::ConfigFolder;

namespace {

namespace fs = std::filesystem;

/// The framework of a file, or the error that refuses it.
std::string outcome_of(const std::string& name, std::string_view text, const test::Told& told = {}) {
    const ConfigFolder folder;
    const std::string path = folder.write(name, text);
    try {
        return std::string(test::import_files({path}, told).framework->name);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        CHECK(std::string_view(error.what()).starts_with(path));
        return error.what();
    }
}

ImportResult import_named(const std::string& name, std::string_view text, const test::Told& told = {}) {
    const ConfigFolder folder;
    return test::import_files({folder.write(name, text)}, told);
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Returns the codes, rules and keys of findings, one a line.
std::string findings_of(const ImportResult& result) {
    std::string text;
    for (const Finding& one : result.findings)
        text += fmt::format("{} {} {}\n", static_cast<char>(one.code), one.rule, one.key);
    return text;
}

}  // namespace

TEST_CASE("a mark holds if all of its conditions hold", "[import]") {
    const files::ConfigFile file =
        files::read_config_text("a: 1\nb: {c: amp_bf16, list: [x, float8]}\nd.e: 2\n", "x.yaml", "x.yaml");
    struct Case {
        const char* mark;
        bool holds;
    };
    const Case cases[] = {
        {"a", true},
        {"c", false},
        {"b.c", true},
        {"*.c", true},
        {"b.*", true},
        {"b.d", false},
        {"d.e", true},
        {"b.c=amp_*", true},
        {"b.c=amp", false},
        {"b.c=x|amp_bf16", true},
        {"b.list=float8", true},
        {"b.list=flo", false},
        {"a+b.c", true},
        {"a+z", false},
        {"a+!z", true},
        {"!a", false},
        {"#yaml", true},
        {"#json", false},
        {"@trl", false},
        {"z a", true},
        {"", false},
    };
    for (const Case& one : cases) {
        CAPTURE(one.mark);
        CHECK(marks_of(one.mark, file).empty() != one.holds);
    }
    CHECK(marks_of("b.c=amp_*+!z a", file) == std::vector<std::string>{"b.c=amp_*", "a"});
    const files::ConfigFile line = files::read_config_text("torchrun -m trl.scripts.sft --a 1", "x.sh", "x.sh");
    CHECK_FALSE(marks_of("@trl*", line).empty());
    CHECK_FALSE(marks_of("#command+a", line).empty());
    CHECK(marks_of("@trl", line).empty());
}

TEST_CASE("a config of a framework that is not read is refused by name", "[import]") {
    struct Case {
        const char *name, *file, *text;
    };
    const Case cases[] = {
        {"unsloth", "t.py", "from unsloth import FastModel\nmodel = FastModel.load('m')\nmodel.train()\n"},
        {"keras", "t.py", "import keras\nmodel = keras.Model()\nmodel.fit()\n"},
        {"python-program", "t.py", "import torch\nfor i in range(3):\n    pass\n"},
        {"onetrainer", "c.json", R"({"training_method": "LORA", "train_dtype": "FLOAT_16", "batch_size": 1})"},
        {"diffusers", "r.sh",
         "accelerate launch --mixed_precision=fp16 train_text_to_image_lora.py --pretrained_model_name_or_path=m "
         "--dataset_name=d --resolution=512 --train_batch_size=1"},
        {"diffusers", "r.sh",
         "accelerate launch my_copy.py --pretrained_model_name_or_path=m --instance_data_dir=d --resolution=512 "
         "--train_batch_size=1 --max_train_steps=5 --mixed_precision=fp16"},
        {"maxtext", "c.yml", "base_config: base.yml\nlearning_rate: 1.0e-5\n"},
        {"nemo-rl", "c.yaml", "policy:\n  model_name: m\n  precision: bfloat16\n"},
        {"megatron-bridge", "c.yaml", "mixed_precision: bf16_with_fp8_hybrid\n"},
        {"openrlhf", "r.sh", "deepspeed --module openrlhf.cli.train_dpo --ds.zero_stage 3 --ds.param_dtype bf16"},
        {"ms-swift", "r.sh", "NPROC_PER_NODE=2 swift sft --model m --torch_dtype bfloat16"},
        {"ms-swift", "r.sh", "megatron sft --model m --torch_dtype bfloat16"},
        {"open-instruct", "c.yaml", "model_name_or_path: m\nuse_slow_tokenizer: true\nwith_tracking: true\n"},
        {"lingua", "c.yaml", "distributed:\n  fsdp_type: full_shard\n  model_dtype: bf16\n"},
        {"llm.c", "r.sh", "torchrun train_gpt2.py --input_bin a --input_val_bin b --dtype bfloat16"},
    };
    std::set<std::string_view> tested;
    for (const Case& one : cases) {
        CAPTURE(one.name, one.text);
        tested.insert(one.name);
        const auto& rows = refused_frameworks();
        const auto row =
            std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.name == one.name; });
        REQUIRE(row != rows.end());
        const std::string said = outcome_of(one.file, one.text);
        CAPTURE(said);
        CHECK(contains(said, fmt::format("this looks like {}", row->title)));
        CHECK(contains(said, "which is not read"));
    }
    for (const RefusedFramework& row : refused_frameworks()) {
        CAPTURE(row.name);
        CHECK(tested.contains(row.name));
        CHECK(find_framework(row.name) == nullptr);  // remove the row of a framework that has an importer
    }
}

TEST_CASE("a short config of each newer framework is recognised by its marks", "[import]") {
    struct Case {
        const char *name, *file, *text;
    };
    const Case cases[] = {
        {"verl", "c.yaml", "actor_rollout_ref:\n  actor: {strategy: fsdp}\n"},
        {"torchtune", "c.yaml", "model:\n  _component_: torchtune.models.m\ndtype: bf16\n"},
        {"torchtitan", "c.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"},
        {"kohya", "c.toml", "pretrained_model_name_or_path = \"m\"\nfull_bf16 = true\nmixed_precision = \"bf16\"\n"},
        {"lightning", "c.yaml", "trainer:\n  precision: 16-mixed\n  max_steps: 1\n"},
        {"composer", "c.yaml", "max_duration: 1ba\nprecision: amp_bf16\nfsdp_config: {mixed_precision: PURE}\n"},
        {"gpt-neox", "c.yml",
         "{\"num_layers\": 2, \"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}}"},
        {"trl", "c.yaml", "model_name_or_path: m\ndataset_name: d\nbf16: true\noutput_dir: o\n"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text);
        CHECK(outcome_of(one.file, one.text) == one.name);
    }
}

TEST_CASE("a framework is recognised only if it knows most of the keys", "[import]") {
    struct Case {
        const char *file, *text, *says, *why;
    };
    const Case cases[] = {
        {"c.yaml", "learning_rate: 1\noutput_dir: o\nmax_steps: 1\nresolution: 1\nguidance: 1\nvae: 1\nx: 1\ny: 1\n",
         "Transformers knows only 3 of the 8 top-level keys", "3 of 8"},
        {"c.yaml", "learning_rate: 1\noutput_dir: o\nbf16: true\nx: 1\n", "transformers", "3 of 4"},
        {"c.yaml", "mixed_precision: fp16\nx: 1\ny: 2\n", "Accelerate knows only 1 of the 3", "1 of 3"},
        {"c.yaml", "mixed_precision: fp16\nnum_processes: 1\n", "accelerate", "without a mark"},
        {"c.py", "out_dir = 'o'\nbatch_size = 4\n", "nanogpt", "a Python file of assignments"},
        {"c.py", "resolution = 512\nbatch_size = 4\nvae = 'x'\n", "nanoGPT knows only 1 of the 3", "a foreign one"},
        {"c.args", "--bf16", "megatron", "a file of options"},
        {"c.args", "torchrun t.py --bf16", "the keys fit both", "one option that two frameworks have"},
        {"c.sh", "torchrun t.py --bf16 True --output_dir o", "transformers", "a command line"},
        {"c.sh", "torchrun pretrain_gpt.py --bf16 --use-distributed-optimizer", "megatron", "the name of the program"},
        {"c.sh", "llamafactory-cli train --stage sft --model_name_or_path m --finetuning_type lora --bf16 true",
         "llamafactory", "a subcommand"},
        {"c.toml", "[zero_optimization]\nstage = 1\n[fp16]\nenabled = true\n", "deepspeed", "any language"},
        {"c.yaml", "shopping: [milk]\n", "no framework was recognised by these keys", "nothing"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, one.why);
        const std::string said = outcome_of(one.file, one.text);
        CAPTURE(said);
        CHECK(contains(said, one.says));
    }
    CHECK_FALSE(contains(outcome_of("r.sh", "python megatron_gpt_pretraining.py trainer.devices=8"), "ms-swift"));
    // The user may name the framework, but a Python program is not a config of any.
    CHECK(outcome_of("c.yaml", "base_config: x\nbf16: true\n", {.framework = "transformers"}) == "transformers");
    CHECK(contains(outcome_of("c.py", "print(1)\n", {.framework = "nanogpt"}), "a Python program"));
}

TEST_CASE("a framework that does not know an option never wins over one that knows all of them", "[import]") {
    const auto command = [](const char* options) {
        return outcome_of("run.sh", fmt::format("python train.py {}\n", options));
    };
    CHECK(command("--learning_rate=0.005 --wandb_log=True") == "nanogpt");
    CHECK(command("--learning_rate=0.005 --dtype=float16 --max_iters=10") == "nanogpt");
    // No framework knows all of these options, so a script of Transformers may add one.
    CHECK(command("--learning_rate=0.005 --num_train_epochs=3 --my_option=1") == "transformers");
    CHECK(command("--learning_rate=0.005 --fp16 --output_dir=o --wandb_log=True") == "transformers");
    const ImportResult found = import_named("run.sh", "python train.py --learning_rate=0.005 --wandb_log=True\n");
    CHECK(test::field_of(found, "compute") == "B");
}

TEST_CASE("an unknown key whose name suggests that it may affect precision is never called removable", "[import]") {
    for (const char* key : {"dtype", "weight_dtype", "param_precision", "use_fp16", "bf16x3", "half_weights",
                            "float_mode", "quantize", "use_amp", "loss_scale_x", "grad-scale"}) {
        CAPTURE(key);
        CHECK(names_precision(key));
    }
    for (const char* key : {"max_train_samples", "example", "behalf", "timestamp", "upscaled", "clip"}) {
        CAPTURE(key);
        CHECK_FALSE(names_precision(key));
    }
    for (const char* framework : {"transformers", "accelerate", "torch", "deepspeed", "axolotl", "llamafactory"}) {
        CAPTURE(framework);
        const ImportResult result = test::import_text("my_special_qdtype: x\nzzz_other: 1\n", {.framework = framework});
        const auto is_about = [](const char* key) { return [key](const Finding& one) { return one.key == key; }; };
        const auto found = std::find_if(result.findings.begin(), result.findings.end(), is_about("my_special_qdtype"));
        REQUIRE(found != result.findings.end());
        CHECK(contains(found->message + found->instead, "suggests that it may affect precision"));
        CHECK_FALSE(contains(found->instead, "remove it"));
        // A refusal by the framework is certain, whatever the name suggests.
        CHECK(found->rule == fmt::format("{}/unknown-{}key", framework, found->framework_refuses ? "" : "precision-"));
        const Finding* other = test::find_rule(result, fmt::format("{}/unknown-key", framework), 'U');
        REQUIRE(other != nullptr);
        CHECK(other->framework_refuses == found->framework_refuses);
        // The lists of keys of PyTorch are not complete, so the key may exist.
        CHECK(contains(other->message, "which do not list every key") == (std::string_view(framework) == "torch"));
    }
}

TEST_CASE("an unknown key that the framework refuses is an error, whatever its name suggests", "[import]") {
    const ImportResult result =
        test::import_text(R"({"bf16": {"enabled": true, "my_dtype": "x"}})", {.framework = "deepspeed"});
    const Finding* found = test::find_rule(result, "deepspeed/unknown-key");
    REQUIRE(found != nullptr);
    CHECK(found->framework_refuses);
    CHECK(test::find_rule(result, "deepspeed/unknown-precision-key") == nullptr);
}

TEST_CASE("a policy is not a config, and a config in TOML is one", "[import]") {
    const ConfigFolder folder;
    CHECK(is_config_name(folder.write("a.toml", "[zero_optimization]\nstage = 1\n")));
    CHECK(is_config_name(folder.write("b.toml", "[model]\nflavor = \"8B\"\n")));
    CHECK_FALSE(is_config_name(folder.write("c.toml", "extends = \"bf16-mixed\"\n[optimizer]\neps = 1e-6\n")));
    CHECK_FALSE(is_config_name(folder.write("d.toml", "not TOML")));
    CHECK(is_config_name(folder.write("e.py", "dtype = 'float16'\nblock_size = 4\n")));
    CHECK_FALSE(is_config_name(folder.write("f.toml", "[tool.black]\nline-length = 100\n")));
}

TEST_CASE("ModelArguments of a script decide the format of the loaded weights", "[import][transformers]") {
    const auto fields = [](const char* line, const char* versions) {
        return test::fields_of(
            import_named("r.sh", line, {.versions = versions, .device = "a100", .checkpoint = "bf16"}),
            {"store", "compute", "opt_state"});
    };
    constexpr const char* old = "transformers=4.51";
    CHECK(fields("torchrun t.py --torch_dtype float16 --output_dir o --fp16", old) == "store=H compute=H opt_state=H");
    CHECK(fields("torchrun t.py --torch_dtype auto --output_dir o --bf16", old) == "store=B compute=B opt_state=B");
    CHECK(fields("torchrun t.py --torch_dtype float32 --output_dir o --bf16", "transformers=5.5") ==
          "store=F compute=B opt_state=F");
    CHECK(fields("torchrun t.py --output_dir o --bf16", old) == "store=F compute=B opt_state=F");
    const ImportResult low =
        import_named("r.sh", "torchrun t.py --torch_dtype float16 --output_dir o --fp16 --my_flag 1",
                     {.versions = old, .device = "a100"});
    const Finding* scaler = test::find_rule(low, "transformers/low-weights-under-scaler", 'E');
    REQUIRE(scaler != nullptr);
    CHECK(scaler->key == "torch_dtype");
    CHECK(test::find_rule(low, "transformers/script-option", 'N') != nullptr);
    CHECK_FALSE(contains(findings_of(low), "U "));
    const ImportResult alone = import_named("r.sh", "torchrun t.py --dtype bfloat16 --output_dir o --learning_rate 1",
                                            {.versions = old, .device = "a100"});
    CHECK(test::find_rule(alone, "transformers/no-master", 'W')->key == "dtype");
}

TEST_CASE("the launcher's precision and files are part of the import", "[import]") {
    const char* line = "accelerate launch --mixed_precision bf16 t.py --output_dir o --learning_rate 1e-4";
    CHECK(test::fields_of(import_named("r.sh", line), {"compute", "store"}) == "compute=B store=F");
    const ImportResult missing =
        import_named("r.sh", "accelerate launch --config_file no.yaml t.py --output_dir o --bf16");
    CHECK(test::find_rule(missing, "transformers/launcher-settings", 'W') != nullptr);
    CHECK(test::fields_of(missing, {"compute", "store", "scaler"}) == "compute=B store=unset scaler=unset");
    CHECK_FALSE(missing.refused());
    const ImportResult absent = import_named("r.sh", "deepspeed t.py --deepspeed no.json --output_dir o --bf16");
    CHECK(test::find_rule(absent, "transformers/missing-file", 'W') != nullptr);
    CHECK(test::fields_of(absent, {"compute", "store"}) == "compute=B store=unset");
    const ConfigFolder folder;
    folder.write("acc.yaml", "distributed_type: FSDP\nmixed_precision: fp16\n");
    folder.write("ds.json", R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}})");
    folder.write("args.yaml", "output_dir: o\nbf16: true\nlearning_rate: 1.0e-5\n");
    const auto fields = [&](const char* text) {
        return test::fields_of(test::import_files({folder.write("r.sh", text)}, {}), {"compute", "store", "master"});
    };
    CHECK(fields("accelerate launch --config_file acc.yaml t.py --output_dir o --learning_rate 1") ==
          "compute=H store=unset master=unset");
    CHECK(fields("accelerate launch --use_deepspeed --deepspeed_config_file ds.json t.py --output_dir o --bf16") ==
          "compute=B store=B master=F");
    CHECK(fields("torchrun t.py args.yaml") == "compute=B store=F master=none");
    CHECK(fields("torchrun t.py args.yaml --bf16 False --fp16") == "compute=H store=F master=none");
    CHECK(fields("cat > d.json <<E\n{\"zero_optimization\": {\"stage\": 1}, \"fp16\": {\"enabled\": true}}\nE\n"
                 "deepspeed t.py --deepspeed d.json --output_dir o --fp16") == "compute=H store=H master=F");
    // Without options of the program, the launcher's options are a config of Accelerate.
    const ImportResult launcher =
        import_named("r.sh", "accelerate launch --mixed_precision fp16 --use_deepspeed --zero_stage 2 t.py");
    CHECK(launcher.framework->name == "accelerate");
    CHECK(test::fields_of(launcher, {"compute", "store", "master"}) == "compute=H store=H master=F");
    CHECK(contains(outcome_of("r.sh", "torchrun t.py no.yaml --bf16"), "reads 'no.yaml', which does not exist"));
}

TEST_CASE("files that the script writes are read wherever the command names them", "[import]") {
    const ConfigFolder folder;
    folder.write("ds.json", R"({"zero_optimization": {"stage": 1}, "bf16": {"enabled": true}})");
    const auto fields = [&](const std::string& text) {
        try {
            const ImportResult result = test::import_files({folder.write("r.sh", text)}, {});
            const Finding* unreadable = test::find_rule(result, "transformers/unreadable-file", 'E');
            return unreadable != nullptr ? unreadable->message
                                         : test::fields_of(result, {"compute", "store", "master"});
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    const std::string zero = "{\"zero_optimization\": {\"stage\": 1}, \"fp16\": {\"enabled\": true}}\nE\n";
    const std::string run = "deepspeed t.py --output_dir o --fp16 --deepspeed ds.json\n";
    CHECK(fields("cat > ./ds.json <<E\n" + zero + run) == "compute=H store=H master=F");
    CHECK(fields("cat > ds.json <<-E\n\t" + zero + run) == "compute=H store=H master=F");
    CHECK(contains(fields("if true; then\ncat > ds.json <<E\n" + zero + "fi\n" + run),
                   "r.sh:2:1: the text of 'ds.json' is unknown: the `if` in line 1 decides"));
    CHECK(contains(fields("python make.py > ds.json\n" + run), "it is the output of a command"));
    const std::string launcher = "accelerate launch --config_file ./acc.yaml t.py";
    const std::string options = " --output_dir o --learning_rate 1\n";
    CHECK(fields("cat > acc.yaml <<E\nmixed_precision: bf16\nE\n" + launcher + options) ==
          "compute=B store=F master=none");
    CHECK(fields("cat > acc.yaml <<E\nmixed_precision: fp16\ndistributed_type: MULTI_GPU\nE\n" + launcher) ==
          "compute=H store=F master=none");
    CHECK(contains(fields("sed s/a/b/ x > acc.yaml\n" + launcher + options), "the text of './acc.yaml' is unknown"));
}

TEST_CASE("the files of a command have precedence in its order, and its options before all of them", "[import]") {
    const ConfigFolder folder;
    folder.write("a.py", "dtype = 'float16'\nout_dir = 'o'\nbatch_size = f()\n");
    folder.write("b.py", "dtype = 'bfloat16'\nout_dir = 'o'\n");
    folder.write("c.py", "out_dir = 'o'\nfor i in []:\n    pass\n");
    folder.write("d.py", "out_dir = 'o'\ndtype = f()\n");
    const auto computes = [&](const std::string& arguments) {
        try {
            const std::string script = folder.write("r.sh", "python train.py " + arguments);
            return test::field_of(test::import_files({script}, {.framework = "nanogpt"}), "compute");
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    CHECK(computes("a.py b.py") == "B");
    CHECK(computes("b.py a.py") == "H");
    CHECK(computes("b.py a.py --dtype=float32") == "T");
    CHECK(computes("--dtype=float32 b.py a.py") == "H");  // nanoGPT runs the files after the option
    CHECK(contains(computes("c.py"), "c.py:2:1: this looks like a Python program"));
    CHECK(contains(computes("d.py"), "the value of `dtype` is `f()`, which is unknown"));
    CHECK(computes("d.py --dtype=float32") == "T");
    CHECK(computes("d.py b.py") == "B");
    CHECK(contains(computes("b.py d.py"), "the value of `dtype` is `f()`, which is unknown"));
    CHECK(contains(outcome_of("r.sh", "torchrun t.py --config $C --bf16 --output_dir o"),
                   "the value of `config` is `$C`, which is unknown"));
}

TEST_CASE("a variable that the framework reads decides the precision only if its value is known", "[import]") {
    const auto computes = [](const std::string& before, const std::string& launcher = "torchrun") {
        const std::string line = launcher + " t.py --output_dir o --learning_rate 1";
        const ConfigFolder folder;
        try {
            return test::field_of(test::import_files({folder.write("r.sh", before + line)}, {}), "compute");
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    CHECK(computes("export ACCELERATE_MIXED_PRECISION=bf16\n") == "B");
    CHECK(computes("ACCELERATE_MIXED_PRECISION=bf16\n") == "F");
    CHECK(contains(computes("export ACCELERATE_MIXED_PRECISION=$(cat x)\n"),
                   "r.sh:2:1: the value of the variable ACCELERATE_MIXED_PRECISION is `$(cat x)`, which is unknown"));
    CHECK(contains(computes("if [ a = b ]; then P=bf16; fi\nACCELERATE_MIXED_PRECISION=$P "),
                   "ACCELERATE_MIXED_PRECISION is unknown: the `if` in line 1 decides it"));
    CHECK(computes("export OTHER=$(cat x)\n") == "F");
    // The launcher sets the variable itself: from its options or its file, or to `no`.
    const std::string launch = "accelerate launch";
    CHECK(computes("ACCELERATE_MIXED_PRECISION=fp16 ", launch + " --mixed_precision bf16") == "B");
    CHECK(computes("ACCELERATE_MIXED_PRECISION=fp16 ", launch) == "F");
    CHECK(computes("export ACCELERATE_MIXED_PRECISION=$X\n", launch + " --mixed_precision bf16") == "B");
    CHECK(contains(computes("", launch + " --config_file no.yaml"), "this file of the launcher does not exist"));
    // A value of the user has precedence, and a flag of the program decides before the variable.
    const ConfigFolder folder;
    const std::string script =
        folder.write("r.sh", "ACCELERATE_MIXED_PRECISION=$X torchrun t.py --output_dir o --learning_rate 1");
    ImportOptions options;
    options.environment.emplace("ACCELERATE_MIXED_PRECISION", "bf16");
    CHECK(test::field_of(import_config(std::vector{script}, options), "compute") == "B");
    CHECK(test::field_of(test::import_files({script, "fp16=true"}, {}), "compute") == "H");
}

TEST_CASE("Hydra refuses a key that the program's config does not have, unless the command adds it", "[import]") {
    const auto code = [](const char* override_) {
        const ImportResult result = import_named(
            "run.sh", fmt::format("python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=m {}\n", override_),
            {.versions = "verl=0.7.0"});
        const Finding* found = test::find_rule(result, "verl/unknown-key");
        return found == nullptr ? "none" : found->framework_refuses ? "refused" : "ignored";
    };
    CHECK(code("actor_rollout_ref.actor.dtype=float16") == std::string("refused"));
    CHECK(code("+actor_rollout_ref.actor.dtype=float16") == std::string("ignored"));
    CHECK(code("++actor_rollout_ref.actor.dtype=float16") == std::string("ignored"));
    CHECK(code("actor_rollout_ref.actor.fsdp_config.dtype=float16") == std::string("none"));
    // The constructor of the data class also refuses a key that Hydra adds.
    CHECK(code("+actor_rollout_ref.actor.fsdp_config.format=float16") == std::string("refused"));
    // The keys of a config that is not read are unknown.
    CHECK(code("--config-name=my_trainer actor_rollout_ref.actor.dtype=float16") != std::string("refused"));
}

TEST_CASE("a key that an override of Hydra removes is unknown", "[import]") {
    const std::string line = "python -m verl.trainer.main_ppo actor_rollout_ref.actor.strategy=fsdp ";
    CHECK(outcome_of("r.sh", line) == "verl");
    for (const char* path : {"actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.actor.strategy"}) {
        CAPTURE(path);
        CHECK(
            contains(outcome_of("r.sh", fmt::format("{} '~{}'", line, path)),
                     fmt::format("the value of `{0}` is `~{0}`, which is unknown: the command removes the key", path)));
    }
    CHECK(test::find_rule(import_named("r.sh", line + "~trainer.project_name"), "verl/unknown-value", 'N') != nullptr);
}

TEST_CASE("an unknown value is a note if its key decides no format, and is refused otherwise", "[import]") {
    const ImportResult rate =
        import_named("r.sh", "torchrun t.py --learning_rate $(python lr.py) --fp16 --output_dir o");
    CHECK(test::find_rule(rate, "transformers/unknown-value", 'N')->key == "learning_rate");
    for (const char* line :
         {"torchrun t.py --bf16 $B --output_dir o", "torchrun t.py --deepspeed $D --output_dir o --bf16",
          "torchrun t.py --my_dtype $B --output_dir o --bf16"}) {
        CAPTURE(line);
        CHECK(contains(outcome_of("r.sh", line), "which is unknown"));
    }
    CHECK(contains(outcome_of("c.py", "import torch\ndtype = 'a' if torch.x() else 'b'\nout_dir = 'o'\n"),
                   "c.py:2:1: the value of `dtype` is `'a' if torch.x() else 'b'`"));
    CHECK(outcome_of("c.py", "import time\nout_dir = 'o'\nwandb_run_name = 'r' + str(time.time())\n") == "nanogpt");
    // An override gives the value.
    const ConfigFolder folder;
    const std::string script = folder.write("r.sh", "torchrun t.py --bf16 $B --output_dir o");
    CHECK(test::fields_of(test::import_files({script, "bf16=true"}, {}), {"compute"}) == "compute=B");
}

namespace {

/// Samples whose framework has no importer yet, or whose expectation does not agree with released sources.
const std::map<std::string_view, std::string_view> pending{
    {"heredoc config",
     "DeepSpeed's train_micro_batch_size_per_gpu is 1, but per_device_train_batch_size is 8 by default, and "
     "Transformers raises an error for this (integrations/deepspeed.py, fill_match)"},
    {"torchtune fp32",
     "compute is fp32, and not tf32: nothing in torchtune 0.2.0 to 0.6.1 calls _set_float32_precision "
     "(training/precision.py)"},
};

bool is_pending(std::string_view name) {
    return std::any_of(pending.begin(), pending.end(), [&](const auto& one) { return name.starts_with(one.first); });
}

std::vector<std::string> words(const ConfigValue& list) {
    std::vector<std::string> all;
    for (const ConfigValue& item : list.items) all.push_back(item.written);
    return all;
}

/// Returns whether a text matches one of the patterns that `|` separates. A `*` at the end of a pattern matches any
/// rest.
bool fits(std::string_view patterns, std::string_view text) {
    while (!patterns.empty()) {
        const std::size_t length = std::min(patterns.find('|'), patterns.size());
        std::string_view one = patterns.substr(0, length);
        patterns.remove_prefix(std::min(length + 1, patterns.size()));
        const bool takes_rest = one.ends_with('*');
        if (takes_rest) one.remove_suffix(1);
        if (takes_rest ? text.starts_with(one) : text == one) return true;
    }
    return false;
}

bool has_finding(const ImportResult& result, const ConfigValue& wanted) {
    const std::vector<std::string> code_and_key = words(wanted);
    return std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& one) {
        const auto is_key = [&](const std::string& key) { return fits(code_and_key[1], key); };
        return contains(code_and_key[0], std::string(1, static_cast<char>(one.code))) &&
               (code_and_key[1] == "*" || is_key(one.key) || std::any_of(one.keys.begin(), one.keys.end(), is_key));
    });
}

test::Told told_by(const std::vector<std::string>& arguments) {
    test::Told told{.device = "a100"};
    for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
        if (arguments[i] == "--gpu" || arguments[i] == "--device-profile") told.device = arguments[i + 1];
        if (arguments[i] == "--framework-version") told.versions = arguments[i + 1];
        if (arguments[i] == "--checkpoint-dtype") told.checkpoint = arguments[i + 1];
    }
    return told;
}

void check_sample(const ConfigValue& sample, const ImportResult& result) {
    const double code = result.refused() ? 1 : 0;
    CAPTURE(findings_of(result));
    CHECK(code == sample.find("exit")->number);
    CHECK(result.framework->name == sample.find("framework")->written);
    for (const ConfigValue& wanted : sample.find("must")->items) {
        CAPTURE(words(wanted));
        CHECK(has_finding(result, wanted));
    }
    for (const ConfigValue& unwanted : sample.find("never")->items) {
        CAPTURE(words(unwanted));
        CHECK_FALSE(has_finding(result, unwanted));
    }
    for (const ConfigValue::Entry& field : sample.find("resolved")->entries) {
        CAPTURE(field.key);
        CHECK(result.resolved.word(field.key) == field.value.written);
    }
}

}  // namespace

TEST_CASE("the samples of the specification have their framework, findings and formats", "[import][real]") {
    const fs::path shared = test::shared_folder();
    const fs::path samples = shared / "spec/frameworks-2/samples";
    if (shared.empty() || !fs::exists(samples / "samples.jsonl")) SKIP_TEST("no samples of the specification");
    std::ifstream lines(samples / "samples.jsonl");
    int count = 0, checked = 0;
    std::string left;
    for (std::string line; std::getline(lines, line);) {
        const ConfigValue sample = files::read_json_config(line, "samples.jsonl").root;
        const std::string name = sample.find("name")->written;
        CAPTURE(name);
        ++count;
        if (is_pending(name)) {
            left += "\n  " + name;
            continue;
        }
        ++checked;
        const std::string file = (samples / "config" / sample.find("file")->written).string();
        try {
            check_sample(sample, test::import_files({file}, told_by(words(*sample.find("args")))));
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(static_cast<int>(error.exit()) == static_cast<int>(sample.find("exit")->number));
        }
    }
    std::cout << "samples of the specification: " << count << ", checked " << checked << ", pending:" << left
              << std::endl;
    CHECK(count >= 52);
}

TEST_CASE("public files of other frameworks get no table of a framework that they do not belong to", "[import][real]") {
    const fs::path more = test::shared_folder() / "configs/more";
    if (test::shared_folder().empty() || !fs::is_directory(more)) SKIP_TEST("no folder of public files");
    int count = 0, read = 0;
    for (const auto& entry : fs::directory_iterator(more)) {
        const std::string path = entry.path().string(), name = entry.path().filename().string();
        if (name == "index.csv") continue;
        CAPTURE(name);
        ++count;
        try {
            const ImportResult result = test::import_files({path}, {});
            ++read;
            CHECK(name.starts_with(result.framework->name));
            for (const Finding& one : result.findings) {
                CAPTURE(one.message);
                CHECK_FALSE((one.code == FindingCode::unknown && names_precision(one.key)));
            }
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(error.exit() == Exit::bad_input);
            const bool is_by_name = contains(error.what(), "this looks like");
            const bool is_script = contains(error.what(), "nothing is run") || contains(error.what(), "decides a word");
            CHECK((is_by_name || is_script));
        }
    }
    std::cout << "public files of other frameworks: " << count << ", read " << read << std::endl;
    CHECK(count >= 36);
}

TEST_CASE("keys that TRL and Transformers share belong to the package in the requirements", "[import]") {
    const std::string shared = "model_name_or_path: my/model\ntorch_dtype: bfloat16\nbf16: true\noutput_dir: out\n";
    const ConfigFolder folder;
    const std::vector<std::string> both{folder.write("both.yaml", shared)},
        recipe{folder.write("recipe.yaml", shared + "packing: true\n")};
    const auto import = [&](const std::vector<std::string>& files, const std::vector<std::string>& installed,
                            const std::string& framework = {}) {
        ImportOptions options;
        options.framework = framework;
        for (const std::string& package : installed)
            options.requirements.versions[package] = parse_version(package == "trl" ? "0.20.0" : "4.44.2");
        return import_config(files, options);
    };
    const auto name = [](const ImportResult& result) { return std::string(result.framework->name); };
    CHECK(name(import(both, {"transformers"})) == "transformers");
    CHECK(name(import(both, {"transformers", "trl"})) == "trl");
    CHECK(name(import(recipe, {"transformers"})) == "trl");
    for (const auto& result : {import(both, {"transformers"}), import(both, {"transformers", "trl"}),
                               import(recipe, {}), import(both, {}, "trl")})
        CHECK(test::find_rule(result, name(result) + "/also-fits") == nullptr);

    const ImportResult open = import(both, {});
    CHECK(name(open) == "trl");
    const Finding* also = test::find_rule(open, "trl/also-fits", 'N');
    REQUIRE(also != nullptr);
    CHECK(contains(also->message, "for Transformers, "));
    CHECK(contains(also->message, "ckpt false"));
    CHECK(also->instead.starts_with("--framework transformers"));
    // TRL 1.16, which is only assumed, refuses torch_dtype. That is an error only if the recipe is certainly one of TRL.
    CHECK_FALSE(open.refused());
    CHECK(import(recipe, {}).refused());
    CHECK(import(both, {}, "trl").refused());
    ImportOptions version;
    version.versions["trl"] = parse_version("1.16.0");
    CHECK(import_config(both, version).refused());
}

}  // namespace recognition_test
