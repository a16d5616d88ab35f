// SPDX-License-Identifier: Apache-2.0
// Tests the verb `macheps diagnose`: the most likely cause of what configs, logs and run directories show.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

namespace diagnose_causes_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr const char* large_scale =
    "{\n  \"fp16\": {\n    \"enabled\": true,\n    \"initial_scale_power\": 32\n  },\n"
    "  \"zero_optimization\": {\"stage\": 1}\n}\n";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A log of DeepSpeed in which the first steps overflow.
std::string overflow_log() {
    std::string text;
    for (int i = 0; i < 8; ++i) {
        text += fmt::format(
            "[2025-01-01 00:00:0{},000] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping "
            "step. Attempted loss scale: {}, reducing to {}\n",
            i, 1LL << (32 - i), 1LL << (31 - i));
        text += fmt::format("steps: {} loss: 10.{} iter time (s): 1.0 samples/sec: 1.0\n", i + 1, 90 - i);
    }
    return text;
}

/// A trainer_state.json whose loss becomes NaN at step 70.
std::string nan_state() {
    std::string rows;
    for (int step = 10; step <= 120; step += 10) {
        const std::string loss = step < 70 ? fmt::format("{}", 3.0 - step * 0.01) : "NaN";
        rows +=
            fmt::format("{}{{\"epoch\": {}, \"grad_norm\": {}, \"learning_rate\": 1e-4, \"loss\": {}, \"step\": {}}}",
                        rows.empty() ? "" : ", ", step * 0.01, step < 70 ? "1.5" : "NaN", loss, step);
    }
    return fmt::format("{{\"global_step\": 120, \"log_history\": [{}]}}", rows);
}

}  // namespace

TEST_CASE("diagnose: a config alone gives its gravest finding, three checks and a patch", "[program][diagnose]") {
    write("ds.json", large_scale);
    const Outcome outcome = run("diagnose ds.json");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "gravest problem of the config (possible): the loss scale starts at 2^32"));
    CHECK(contains(outcome.out, "ds.json:4:"));
    CHECK(contains(outcome.out, "  3. "));
    CHECK(contains(outcome.out, "write:\n  fp16.initial_scale_power=16\n"));
    CHECK(contains(outcome.out, "-    \"initial_scale_power\": 32\n+    \"initial_scale_power\": 16\n"));
    CHECK(contains(outcome.out, "it ends\n  deepspeed/large-initial-scale: "));
    CHECK(contains(outcome.out, "macheps train --config ds.json --policy amp-bf16 --png picture.png"));
    write("good.yaml", "bf16: true\nlogging_nan_inf_filter: false\noutput_dir: out\n");
    const Outcome good = run("diagnose good.yaml --framework transformers");
    CHECK(good.code == 1);
    CHECK(contains(good.out, "no known problem"));
}

TEST_CASE("diagnose: a cause that the config has comes before the usual causes of a log", "[program][diagnose]") {
    write("ds.json", large_scale);
    write("train.log", overflow_log());
    const json alone = json::parse(run("diagnose train.log --json").out);
    const json both = json::parse(run("diagnose train.log ds.json --json").out);
    CHECK(alone["observations"] == both["observations"]);
    CHECK(both["observations"][0]["diagnosis"] == "overflow-cascade");
    const json& cause = both["causes"][0];
    CHECK(contains(cause["evidence"], "large-initial-scale"));
    CHECK(cause["certainty"] == "likely");
    CHECK(cause["settings"] == json({"fp16.initial_scale_power=16"}));
    CHECK(alone["causes"][0]["certainty"] == "possible");
    CHECK(alone["causes"][0]["settings"].empty());
    // All other causes are those of a scale that falls, and not those of a loss that does not fall.
    CHECK(contains(both["causes"][1]["text"], "the gradients are NaN at every scale"));
    CHECK(both["causes"][0]["checks"][0]["lines"] == json({"print(engine.skipped_steps)"}));
}

TEST_CASE("diagnose: the gravest finding of a log is explained, and each cause has three checks",
          "[program][diagnose]") {
    write("trainer_state.json", nan_state());
    const json found = json::parse(run("diagnose trainer_state.json --json").out);
    CHECK(contains(found["observations"][0]["diagnosis"], "nan-in-"));
    CHECK(contains(found["observations"][0]["place"], "step 70"));
    CHECK(found["causes"].size() > 1);
    for (const json& cause : found["causes"]) CHECK(cause["checks"].size() == 3);
}

TEST_CASE("diagnose: a loss that is shown as 0 is explained before the gradient norm beside it",
          "[program][diagnose]") {
    const std::string log = std::string(MACHEPS_SOURCE_DIR) + "/examples/logs/trainer_state.json";
    const json found = json::parse(run("diagnose " + log + " --json").out);
    CHECK(found["observations"][0]["diagnosis"] == "loss-zero-filtered");
    CHECK(contains(found["causes"][0]["text"], "fp16: activations or the loss scale overflow"));
}

TEST_CASE("diagnose: findings of the config that explain a log come first, and all others follow",
          "[program][diagnose]") {
    write("ds.json", "{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 0}}\n");
    write("trainer_state.json", nan_state());
    write("requirements.txt", "deepspeed==0.19.8\n");
    const std::string files = "diagnose trainer_state.json ds.json requirements.txt --checkpoint-dtype bf16";
    const json found = json::parse(run(files + " --json").out);
    CHECK(contains(found["causes"][0]["evidence"], "bf16-checkpoint-in-fp16"));
    CHECK(found["causes"][0]["certainty"] == "likely");
    const auto names_fault = [](const json& cause) {
        return contains(cause["evidence"].get<std::string>(), "ds-z0-fp16-unscaled");
    };
    CHECK(std::count_if(found["causes"].begin(), found["causes"].end(), names_fault) == 1);
    // The fault is known only because the requirements name the release.
    write("requirements.txt", "deepspeed==0.16.5\n");
    const json old = json::parse(run(files + " --json").out);
    CHECK(std::none_of(old["causes"].begin(), old["causes"].end(), names_fault));
}

TEST_CASE("diagnose: an output directory is read through its newest state", "[program][diagnose]") {
    fs::create_directories(scratch() / "out/checkpoint-60");
    fs::create_directories(scratch() / "out/checkpoint-120");
    write("out/checkpoint-60/trainer_state.json", "{\"log_history\": []}");
    write("out/checkpoint-120/trainer_state.json", nan_state());
    const Outcome outcome = run("diagnose out --json");
    CHECK(outcome.code == 0);
    CHECK(json::parse(outcome.out)["read"] == json({"out/checkpoint-120/trainer_state.json (log)"}));
    fs::create_directories(scratch() / "empty");
    const Outcome empty = run("diagnose empty");
    CHECK(empty.code == 3);
    CHECK(contains(empty.err, "trainer_state.json"));
    CHECK(run("diagnose no-such-file").code == 3);
}

TEST_CASE("diagnose: an output directory says in which formats it was trained, and what was not read",
          "[program][diagnose]") {
    fs::remove_all(scratch() / "t5");
    fs::create_directories(scratch() / "t5/checkpoint-120");
    fs::create_directories(scratch() / "t5/checkpoint-130");  // it was not saved completely
    write("t5/checkpoint-120/trainer_state.json", nan_state());
    write("t5/checkpoint-120/config.json",
          R"({"model_type": "t5", "torch_dtype": "bfloat16", "vocab_size": 32128, "architectures": ["T5"]})");
    write("t5/checkpoint-120/training_args.bin", "PK");
    write("t5/README.md",
          "# out\n\nThe following hyperparameters were used during training:\n- learning_rate: 0.0003\n- seed: 42\n"
          "- mixed_precision_training: Native AMP\n\n### Framework versions\n\n- Transformers 4.46.3\n"
          "- Pytorch 2.4.0+cu121\n");
    write("t5/all_results.json", "{\n    \"epoch\": 1.2,\n    \"eval_loss\": NaN\n}\n");
    write("t5/train.log", "no rows\n");
    const Outcome page = run("diagnose t5");
    CAPTURE(page.out);
    CHECK(page.code == 0);
    CHECK(contains(page.out, "  settings of t5/README.md [transformers/bf16-checkpoint-in-fp16]\n"));
    CHECK(contains(page.out, "check (lines for Transformers Trainer):\n"));
    CHECK(contains(page.out, "       TrainingArguments(debug=\"underflow_overflow\")\n"));
    CHECK(contains(page.out, "t5/checkpoint-120/config.json (model t5; weights bf16; vocabulary 32128)\n"));
    CHECK(contains(page.out, "transformers 4.46.3, torch 2.4.0+cu121; settings learning_rate=0.0003, fp16=true"));
    CHECK(contains(page.out, "t5/all_results.json (not finite: \"eval_loss\")"));
    CHECK(contains(page.out, "t5/checkpoint-120/training_args.bin: a pickle, which can run code"));
    CHECK(contains(page.out, "t5/train.log: another log is read"));
    // The files can be named one by one.
    const Outcome files =
        run("diagnose t5/checkpoint-120/trainer_state.json t5/checkpoint-120/config.json t5/README.md");
    CHECK(contains(files.out, "bf16-checkpoint-in-fp16"));
    CHECK(contains(run("diagnose t5/checkpoint-120/training_args.bin").out, "a pickle"));
    // The user's options take precedence.
    CHECK_FALSE(contains(run("diagnose t5 --checkpoint-dtype fp32").out, "bf16-checkpoint-in-fp16"));
    write("bf16.yaml", "bf16: true\noutput_dir: out\n");
    CHECK_FALSE(contains(run("diagnose t5 bf16.yaml").out, "bf16-checkpoint-in-fp16"));
    // Settings that no importer knows are listed, and do not end the diagnosis.
    write("t5/training_args.yaml", "colour: red\n");
    const Outcome unknown = run("diagnose t5");
    CHECK(unknown.code == 0);
    CHECK(contains(unknown.out, "not read:\n"));
    CHECK(contains(unknown.out, "  t5/training_args.yaml"));
    fs::remove(scratch() / "t5/training_args.yaml");
    // A file that is not valid is listed, and the others are read.
    write("t5/checkpoint-120/config.json", "{");
    const Outcome broken = run("diagnose t5");
    CHECK(broken.code == 0);
    CHECK(contains(broken.out, "not read:\n"));
    CHECK(contains(broken.out, "  t5/checkpoint-120/config.json: "));
}

TEST_CASE("diagnose: the settings and the patch end the first cause on the device, and the fixed config is left alone",
          "[program][diagnose]") {
    fs::remove_all(scratch() / "flan");
    fs::create_directories(scratch() / "flan");
    write("flan/trainer_state.json", nan_state());
    write("flan/config.json", R"({"model_type": "t5", "dtype": "float32", "vocab_size": 32128})");
    const std::string shared = "output_dir: flan\nlearning_rate: 5.0e-5\nmodel_name_or_path: my/model\n";
    write("failed.yaml", shared + "fp16: true\n");
    write("fixed.yaml", shared + "fp16: false\n");
    struct Row {
        const char *options, *settings, *patch, *policy, *device;
    };
    for (const Row& row :
         {Row{" --gpu t4", "fp16=false", "-fp16: true\n+fp16: false\n", "", "on t4"},
          Row{" --gpu a100", "bf16=true fp16=false", "+bf16: true\n", " --policy amp-bf16", "on a100"},
          Row{"", "bf16=true fp16=false", "+bf16: true\n", " --policy amp-bf16", "on a100 (assumed)"}}) {
        const std::string arguments = fmt::format("diagnose flan failed.yaml{}", row.options);
        const Outcome page = run(arguments);
        const json found = json::parse(run(arguments + " --json").out);
        CAPTURE(page.out);
        CHECK(contains(page.out, "read as: Transformers "));  // the model has an encoder and a decoder
        CHECK(contains(page.out, row.device));
        CHECK(contains(found["causes"][0]["evidence"], "transformers/bf16-checkpoint-in-fp16"));
        std::string settings;
        for (const json& one : found["causes"][0]["settings"])
            settings += (settings.empty() ? "" : " ") + one.get<std::string>();
        CHECK(settings == row.settings);
        CHECK(contains(found["patch"], row.patch));
        CHECK(contains(found["basis"], row.device));
        CHECK(found["bytes_per_parameter"] == json({{"before", 16.0}, {"after", 16.0}}));
        CHECK(contains(page.out, "\nmemory with this change"));
        CHECK(contains(found["picture"], fmt::format("macheps train --config failed.yaml{} --framework transformers "
                                                     "--checkpoint-dtype fp32{} --png",
                                                     row.options, row.policy)));
        CHECK(contains(page.out, "on a GPU without bf16 (T4, V100), write:\n  fp16=false\n") == (*row.options == '\0'));
    }
    for (const char* device : {"t4", "a100"}) {
        const Outcome fixed = run(fmt::format("diagnose flan fixed.yaml --gpu {}", device));
        CAPTURE(fixed.out);
        CHECK_FALSE(contains(fixed.out, "fp16=true"));
        CHECK_FALSE(contains(fixed.out, "+fp16: true"));
        CHECK_FALSE(contains(fixed.out, "are used in fp16"));  // the config does not use fp16
    }
    // The format is also proposed if nothing is known about the weights.
    write("flan/config.json", R"({"model_type": "gpt2", "dtype": "float32", "vocab_size": 50257})");
    const json open = json::parse(run("diagnose flan failed.yaml --gpu t4 --framework transformers --json").out);
    CHECK(contains(open["causes"][0]["text"], "fp16: activations or the loss scale overflow"));
    CHECK(open["causes"][0]["settings"] == json({"fp16=false"}));
    CHECK(contains(open["patch"], "-fp16: true\n+fp16: false\n"));
    CHECK(contains(run("diagnose flan/trainer_state.json").out, "no config was given"));
    CHECK(contains(run("diagnose flan/trainer_state.json --gpu t4").out, "train --policy fp16-noscale,amp-fp16 --png"));
}

TEST_CASE("diagnose: the command of the picture runs", "[program][diagnose]") {
    write("trainer_state.json", nan_state());
    write("failed.yaml",
          "output_dir: out\nlearning_rate: 5.0e-5\nmodel_name_or_path: google/flan-t5-large\nfp16: true\n");
    write("versions.txt", "transformers==4.56.2\n");
    for (const char* options : {" --gpu t4 --framework transformers --framework-version 4.56.2",
                                " --framework transformers --requirements versions.txt", " --checkpoint-dtype bf16"}) {
        const json found =
            json::parse(run(fmt::format("diagnose trainer_state.json failed.yaml{} --json", options)).out);
        std::string command = found["picture"].get<std::string>().substr(8);
        CHECK(contains(command, options));
        command = command.substr(0, command.find(" --png"));
        const Outcome trained = run(command + " --steps 4 --seeds 0 --size tiny -q -o run");
        CAPTURE(command, trained.err);
        CHECK(trained.code == 0);
        fs::remove_all(scratch() / "run");
    }
}

TEST_CASE("diagnose: a folder without a known name is read through what was printed", "[program][diagnose]") {
    fs::remove_all(scratch() / "job");
    fs::create_directories(scratch() / "job");
    write("job/slurm-17.out", overflow_log());
    const json found = json::parse(run("diagnose job --json").out);
    CHECK(found["observations"][0]["diagnosis"] == "overflow-cascade");
    CHECK(found["read"] == json({"job/slurm-17.out (log)"}));
}

TEST_CASE("diagnose: gradients, losses and rates of 0 are explained with what distinguishes their causes",
          "[program][diagnose]") {
    struct Row {
        const char *diagnosis, *values, *cause, *line;
    };
    const Row row =
        GENERATE(Row{"zero-gradient", R"("loss": 2.12, "grad_norm": 0.0, "learning_rate": 1e-4)",
                     "all parameters are frozen", "print(sum(p.requires_grad for p in trainer.model.parameters()))"},
                 Row{"zero-loss", R"("loss": 0.0, "grad_norm": 0.0, "learning_rate": 1e-4)", "all labels are masked",
                     "loader = trainer.get_train_dataloader()"},
                 Row{"zero-rate", R"("loss": 2.12, "grad_norm": 1.5, "learning_rate": 0.0)", "a learning rate of 0",
                     "print(trainer.lr_scheduler.get_last_lr(), trainer.args.max_steps, trainer.args.warmup_steps)"},
                 Row{"nan-in-eval", R"("loss": 2.12, "grad_norm": 1.5, "learning_rate": 1e-4, "eval_loss": NaN)",
                     "no label that is not masked", "loader = trainer.get_eval_dataloader()"});
    CAPTURE(row.diagnosis);
    std::string rows;
    for (int step = 1; step <= 8; ++step)
        rows += fmt::format("{}{{{}, \"step\": {}}}", rows.empty() ? "" : ", ", row.values, step);
    write("trainer_state.json", fmt::format("{{\"log_history\": [{}]}}", rows));
    const json found = json::parse(run("diagnose trainer_state.json --json").out);
    CHECK(found["observations"][0]["diagnosis"] == row.diagnosis);
    CHECK(contains(found["causes"][0]["text"], row.cause));
    CHECK(found["causes"][0]["checks"][0]["lines"][0] == row.line);
}

TEST_CASE("diagnose: a run directory of train is explained, with a policy that shows the problem",
          "[program][diagnose]") {
    REQUIRE(run("train --policy pure-bf16 --steps 40 --seeds 0 --size tiny -q -o run").code == 0);
    const Outcome outcome = run("diagnose run");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "run, pure-bf16"));
    CHECK(contains(outcome.out, "macheps report run --png picture.png"));
}

TEST_CASE("diagnose: every example of its help is valid", "[program][diagnose]") {
    write("ds.json", large_scale);
    write("train.log", overflow_log());
    write("trainer_state.json", nan_state());
    write("requirements.txt", "deepspeed==0.19.8\n");
    fs::create_directories(scratch() / "output");
    fs::create_directories(scratch() / "runs");
    write("output/trainer_state.json", nan_state());
    REQUIRE(run("train --policy pure-bf16 --steps 40 --seeds 0 --size tiny -q -o runs/001").code == 0);
    int count = 0;
    const std::string page = run("diagnose --help").out;
    std::istringstream lines(page.substr(0, page.find("Usage:")));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t start = line.find("macheps diagnose");
        if (start == std::string::npos) continue;
        const std::string words = line.substr(start + 8, line.find("  ", start) - start - 8);
        CAPTURE(words);
        CHECK(run(words).code == 0);
        ++count;
    }
    CHECK(count == 5);
}

}  // namespace diagnose_causes_test
