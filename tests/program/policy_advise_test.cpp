// SPDX-License-Identifier: Apache-2.0
// Tests `macheps policy advise`, and the memory and tensors that `macheps policy explain` prints.
#include "tests/json.hpp"
#include "tests/patched.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace policy_advise_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

constexpr const char* deepspeed =
    "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"hysteresis\": 2}, \"zero_optimization\": {\"stage\": 2}}\n";

void write_samples() {
    write("ds.json", deepspeed);
    write("hf_args.yaml", "bf16: true\nfp16: false\nlogging_nan_inf_filter: false\noutput_dir: out\n");
    write("bad.json", "{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}, \"zero_optimization\": {}}\n");
    write("mine.toml", run("policy show amp-bf16").out);
}

json document(const Outcome& outcome) {
    CAPTURE(outcome.out, outcome.err);
    const json parsed = json::parse(outcome.out, nullptr, false);
    REQUIRE_FALSE(parsed.is_discarded());
    return parsed;
}

}  // namespace

TEST_CASE("every example of the help of policy advise and policy explain runs", "[program][advise]") {
    write_samples();
    const std::string example(R"(^  macheps (policy .*?)(   *[^ -].*)?$)");
    for (const char* verb : {"policy advise", "policy explain"}) {
        const std::string help = run(std::string(verb) + " --help").out;
        const std::size_t start = help.find("Examples:\n");
        std::istringstream lines(help.substr(start, help.find("\n\n", start) - start));
        int count = 0;
        for (std::string line; std::getline(lines, line);) {
            const std::optional<Match> parts = matches(line, example);
            if (!parts) continue;
            std::string words = (*parts)[1];
            words = words.substr(0, words.find(" > "));
            CAPTURE(words);
            const Outcome outcome = run(words);
            CAPTURE(outcome.err);
            CHECK(outcome.code == 0);
            CHECK_FALSE(outcome.out.empty());
            CHECK(outcome.err.empty());
            ++count;
        }
        CAPTURE(verb);
        CHECK(count >= 5);
    }
    fs::remove_all(scratch());
}

TEST_CASE(
    "policy advise lists how a config or policy differs from the advice, and exits with 1 if there is a difference",
    "[program][advise]") {
    write_samples();
    struct Case {
        const char *arguments, *says;
        int code;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"--gpu a100 --have hf_args.yaml", "agrees in everything", 0, "bf16 autocast, as advised"},
             {"--gpu a100 --have mine.toml", "agrees in everything", 0, "a policy in a file"},
             {"--gpu t4 --have hf_args.yaml", "matmuls read: bf16, advised fp16", 1, "a T4 emulates bf16"},
             {"--gpu t4 --have hf_args.yaml", "transformers/bf16-emulated", 1, "the framework warns"},
             {"--gpu a100 --have fp16-noscale", "matmuls read: fp16, advised bf16", 1, "a preset"},
             {"--gpu v100 --have fp16-noscale", "the loss is scaled: no, advised yes", 1, "no scaler"},
             {"--gpu a100 --have bad.json", "deepspeed/", 1, "a config that its framework refuses"},
             {"--gpu a100", "use a100-amp-bf16", 0, "nothing to compare with"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = run(std::string("policy advise ") + c.arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.out.find(c.says) != std::string::npos);
        CHECK(outcome.err.empty());
    }
    // A config that its framework refuses agrees with nothing. The refusal is the first statement about it.
    write("both.yaml", "bf16: true\nfp16: true\noutput_dir: out\n");
    const Outcome refused = run("policy advise --gpu v100 --have both.yaml");
    CHECK(refused.code == 1);
    CHECK(refused.out.find("agrees in everything") == std::string::npos);
    CHECK(refused.out.find("\nboth.yaml is refused: at most one of fp16 and bf16 can be true") <
          refused.out.find("both.yaml compared with"));
    const json advised = document(run("policy advise --gpu t4 --have hf_args.yaml --sides 4096,50257 --json"));
    CHECK(advised["device"] == "t4");
    CHECK(advised["goal"] == "pretrain");
    CHECK(advised["params"].is_null());
    CHECK(advised["advice"][0]["policy"] == "amp-fp16");
    for (const char* list : {"reasons", "watch"}) {
        REQUIRE_FALSE(advised["advice"][0][list].empty());
        CHECK(advised["advice"][0][list][0].contains("source"));
    }
    REQUIRE(advised["dimensions"].size() == 1);  // a T4 has no fp8
    CHECK(advised["dimensions"][0]["multiple_of"] == 8);
    CHECK(advised["dimensions"][0]["unfit"] == json({50257}));
    CHECK(advised["have"]["disagreements"].size() == 2);
    CHECK(advised["have"]["findings"][0]["rule"] == "transformers/bf16-emulated");
    // The printed policy is a valid policy file.
    write("advised.toml", run("policy advise --gpu v100 --toml").out);
    CHECK(run("policy diff ./advised.toml amp-fp16").code == 0);
    fs::remove_all(scratch());
}

TEST_CASE("policy advise does not undo a change to fp32, and takes the options with which policy import reads a config",
          "[program][advise]") {
    // A T5 model on a T4: its weights were trained in bf16, so fp16 fails. The file belongs to Seq2SeqTrainingArguments.
    const std::string shared =
        "model_name_or_path: google/flan-t5-large\noutput_dir: out\nlearning_rate: 5.0e-5\n"
        "predict_with_generate: true\nlogging_nan_inf_filter: false\n";
    write("fixed.yaml", shared + "fp16: false\n");
    write("failed.yaml", shared + "fp16: true\n");
    const Outcome fixed = run("policy advise --gpu t4 --goal finetune --have fixed.yaml");
    CAPTURE(fixed.out, fixed.err);
    CHECK(fixed.code == 0);
    CHECK(fixed.out.find("fixed.yaml is read as: Transformers ") != std::string::npos);
    CHECK(fixed.out.find("\nuse fp32 ") != std::string::npos);
    CHECK(fixed.out.find("the weights were trained in bf16, which this device does not multiply") != std::string::npos);
    CHECK(fixed.out.find("agrees in everything that was compared: matmuls read; ") != std::string::npos);
    CHECK(fixed.out.find("not compared: ") != std::string::npos);
    CHECK(fixed.out.find("fp16: true") == std::string::npos);
    CHECK(fixed.out.find("fp16=true") == std::string::npos);
    const Outcome failed = run("policy advise --gpu t4 --goal finetune --have failed.yaml");
    CAPTURE(failed.out);
    CHECK(failed.code == 1);
    CHECK(failed.out.find("agrees") == std::string::npos);
    CHECK(failed.out.find("\nfindings\nW ") < failed.out.find("failed.yaml compared with fp32"));
    CHECK(failed.out.find("-fp16: true\n+fp16: false\n") != std::string::npos);
    // Without --gpu, the page says that the device is assumed, and what suits other devices.
    const Outcome assumed = run("policy advise --goal finetune --have failed.yaml");
    CHECK(assumed.out.starts_with("finetune on a100 (assumed; --gpu names another device)\n"));
    CHECK(assumed.out.find("on a100 (assumed)\non a GPU without bf16 (T4, V100): fp32\n") != std::string::npos);
    CHECK(run("policy advise").out.find("on a GPU without bf16 (T4, V100): amp-fp16\n") != std::string::npos);
    CHECK(run("policy advise --gpu t4 --checkpoint-dtype bf16").out.find("\nuse fp32 ") != std::string::npos);
    CHECK(run("policy advise --gpu t4 --framework trl").code == 2);  // there is no config
    // The command at the end of an import has the options of the import, and can be run.
    write("bare.yaml", "model_name_or_path: my/model\noutput_dir: out\nfp16: true\nlearning_rate: 1.0e-5\n");
    const Outcome imported =
        run("policy import bare.yaml --gpu t4 --framework transformers --framework-version transformers=4.56.2 "
            "--checkpoint-dtype bf16");
    const std::size_t start = imported.out.find("`macheps policy advise"), end = imported.out.find('`', start + 1);
    REQUIRE(end != std::string::npos);
    const std::string command = imported.out.substr(start + 9, end - start - 9);
    CHECK(command ==
          "policy advise --have bare.yaml --gpu t4 --framework transformers --framework-version "
          "transformers=4.56.2 --checkpoint-dtype bf16");
    const Outcome followed = run(command);
    CAPTURE(followed.out, followed.err);
    CHECK(followed.code == 1);
    CHECK(followed.out.find("bare.yaml is read as: Transformers 4.56.2, ") != std::string::npos);
    CHECK(followed.out.find("+fp16: false\n") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("policy advise and policy explain give the memory of models of any size", "[program][advise]") {
    write_samples();
    const Outcome sized = run("policy advise --gpu h100 --goal pretrain --params 7B");
    CHECK(sized.out.find("use h100-amp-bf16") != std::string::npos);
    CHECK(sized.out.find("memory   16 bytes per parameter, 112 GB in total: weights 4, gradients 4, optimizer 8;") !=
          std::string::npos);
    CHECK(sized.out.find("or try h100-fp8-promoted") != std::string::npos);
    CHECK(sized.out == run("policy advise --gpu h100 --params 7e9").out);
    CHECK(run("policy advise --goal lora --params 7B").out.find("bytes per parameter,") == std::string::npos);
    CHECK(run("policy advise --gpu t4 --goal inference --params 350m")
              .out.find("memory   2 bytes per parameter, 0.7 GB in total; activations") != std::string::npos);
    const json explained = document(run("policy explain ds.json --params 7.5e9 --shards 64 --json"));
    const json& memory = explained["memory_of_params"];
    CHECK(memory["params"] == 7.5e9);
    CHECK(memory["shards"] == 64);
    const json& own = memory["recipes"][0];
    CHECK(own["parameters"] == 15e9);
    CHECK(own["gradients"] == 15e9);
    CHECK(own["master"] == 30e9);
    CHECK(own["optimizer"] == 60e9);
    CHECK(own["replicated"] == 120e9);
    CHECK(own["zero1"] == 31.40625e9);
    CHECK(own["zero2"] == 16.640625e9);
    CHECK(own["zero3"] == 1.875e9);
    CHECK(own["activations"].is_null());
    const Outcome text = run("policy explain ds.json --params 7.5e9 --shards 64");
    CHECK(finds(text.out, R"(\nimported-deepspeed +15\.0 +15\.0 +30\.0 +60\.0 +120\.0 +31\.4 +16\.6 +1\.9 +16 )"));
    CHECK(run("policy explain fp32 --params 1.5e9").out.find(" 24.0 ") != std::string::npos);
    // The model has a context of s = 2048, a batch of b = 2, a width of h = 4096, a = 32 heads and 32 layers. All
    // activations are fp16.
    const double sbh = 2048.0 * 2 * 4096, as2b = 32.0 * 2048 * 2048 * 2;
    const std::string model =
        "policy explain pure-fp16 --params 7e9 --json --layers 32 --width 4096 --heads 32 --context 2048 --batch 2";
    const auto activations = [&](const std::string& more) {
        return document(run(model + more))["memory_of_params"]["recipes"][0]["activations"].get<double>();
    };
    CHECK(activations("") == 32 * (34 * sbh + 5 * as2b));
    CHECK(activations(" --flash") == 32 * 34 * sbh);
    CHECK(activations(" --ckpt") == 32 * 2 * sbh);
    CHECK(activations(" --flash --vocabulary 1000") == 32 * 34 * sbh + 4 * 2048 * 2 * 1000);
    const json galore = document(run(model + " --galore-rank 1024"))["memory_of_params"]["recipes"];
    CHECK(galore[galore.size() - 2]["recipe"] == "galore");
    // Two moments and one projection, all in fp32. Each has a quarter of the parameters (rank 1024 of 4096).
    CHECK(galore[galore.size() - 2]["optimizer"] == 4 * 7e9 * 3 / 4);
    CHECK(galore[galore.size() - 1]["replicated"] == 2 * 7e9 * (2 + 0.75));
    const Outcome csv = run("policy explain pure-bf16 --params 1e9 --shards 4 --csv");
    CHECK(csv.out.starts_with(
        "recipe,parameters,gradients,master,optimizer,casts,replicated,zero1,zero2,zero3,activations\n"
        "pure-bf16,2000000000,2000000000,0,4000000000,0,8000000000,5000000000,3500000000,2000000000,\n"));
    fs::remove_all(scratch());
}

TEST_CASE("policy explain lists every tensor, every matmul and the bytes of its model", "[program][advise]") {
    write_samples();
    const json explained = document(run("policy explain ds.json --model llama --batch 3 --json"));
    std::set<std::string> kinds;
    for (const json& row : explained["tensors"]) {
        kinds.insert(row["kind"].get<std::string>());
        for (const char* member : {"site", "format", "elements", "rule"}) CHECK(row.contains(member));
    }
    CHECK(kinds == std::set<std::string>{"accum", "activation", "grad", "master", "matmul", "moment1", "moment2",
                                         "value", "wire"});
    CHECK(explained["memory"]["batch"] == 3);
    const double parameters = explained["memory"]["parameters"], master = explained["memory"]["master"];
    CHECK(master == 2 * parameters);  // the parameters are fp16, and the master weights are fp32
    CHECK(explained["memory"]["optimizer"] == 4 * parameters);
    const double three = explained["memory"]["activations"];
    CHECK(document(run("policy explain ds.json --model llama --batch 6 --json"))["memory"]["activations"] == 2 * three);
    const std::string folded = run("policy explain amp-bf16 --fold").out;
    CHECK(folded.find("\nTENSOR ") != std::string::npos);
    CHECK(folded.find("block.0.") == std::string::npos);
    CHECK(finds(folded, R"(\nmatmul +block\.\*\.mlp\.up:input_grad +bf16 x bf16 -> bf16 on fp32\.chain)"));
    CHECK(finds(folded, R"(\nmemory +parameters .* optimiser .*; activations .* \(batch \d+\)\n)"));
    fs::remove_all(scratch());
}

TEST_CASE("policy advise and policy explain refuse impossible sizes and unknown names in one line",
          "[program][advise]") {
    write_samples();
    struct Case {
        const char *arguments, *says;
        int code;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"explain fp32 --params 0", "--params", 2},
             {"advise --params 7Q", "'7Q' is not a valid number of parameters", 2},
             {"explain fp32 --params nan", "--params", 2},
             {"explain fp32 --params inf", "--params", 2},
             {"explain fp32 --params 1e9 --shards 0", "--shards", 2},
             {"explain fp32 --shards 2", "--params", 2},
             {"explain fp32 --params 1e9 --trainable 2", "--trainable", 2},
             {"explain fp32 --params 1e9 --width 64", "missing: --layers, --heads, --context", 2},
             {"explain fp32 --params 1e9 --layers 2 --width 64 --heads 3 --context 8",
              "the number of heads, 3, does not divide", 2},
             {"explain fp32 --params 1e9 --layers 2 --width 0 --heads 3 --context 8", "--width", 2},
             {"explain fp32 --batch 0", "--batch", 2},
             {"explain fp32 --params 1e9 --galore-rank 8", "--galore-rank", 2},
             {"advise --gpu gtx", "--gpu", 2},
             {"advise --goal fun", "--goal", 2},
             {"advise --params -1", "--params", 2},
             {"advise --sides 4096,0", "--sides", 2},
             {"advise --json --toml", "--toml", 2},
             {"advise --have absent.json", "absent.json", 3},
             {"advise --have no-such-preset", "no-such-preset", 2}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("policy ") + c.arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        const bool asks_for_json = std::string(c.arguments).find("--json") != std::string::npos;
        CHECK(outcome.out.empty() != asks_for_json);  // with --json, the error is printed as JSON
        CHECK(outcome.err.find(c.says) != std::string::npos);
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    fs::remove_all(scratch());
}

TEST_CASE("policy advise --have prints the settings that end findings, as a patch of the file", "[program][advise]") {
    const std::string text =
        "{\n  \"fp16\": {\"enabled\": true, \"initial_scale_power\": 32},\n"
        "  \"zero_optimization\": {\"stage\": 0}\n}\n";
    write("ds.json", text);
    const Outcome outcome = run("policy advise --gpu h100 --have ds.json");
    CHECK(outcome.code == 1);
    const std::string patch = outcome.out.substr(outcome.out.find("--- ds.json\n"));
    CHECK(patched(text, patch) ==
          "{\n  \"fp16\": {\"enabled\": true, \"initial_scale_power\": 16},\n"
          "  \"zero_optimization\": {\"stage\": 1}\n}\n");
    const json have = document(run("policy advise --gpu h100 --have ds.json --json")).at("have");
    CHECK(have.at("patch") == patch);
    CHECK(have.at("remedies").at(0).at("settings") == json({"zero_optimization.stage=1"}));
    const json none = document(run("policy advise --gpu a100 --have fp16-noscale --json")).at("have");
    CHECK(none.at("patch") == "");
    fs::remove_all(scratch());
}

TEST_CASE("the activations of a config are those of gradient checkpointing if the config turns it on", "[program]") {
    write("plain.yaml", "bf16: true\nper_device_train_batch_size: 8\ngradient_checkpointing: false\n");
    write("saved.yaml", "bf16: true\nper_device_train_batch_size: 8\ngradient_checkpointing: true\n");
    write("saved.toml", "name = \"saved\"\nextends = \"amp-bf16\"\n[backward]\nrecompute = true\n");
    const auto bytes_of = [](const std::string& arguments) {
        const Outcome outcome = run("policy explain " + arguments +
                                    " --params 783e6 --layers 48 --width 1024 --heads 16 --context 512 --json");
        CAPTURE(arguments, outcome.err);
        REQUIRE(outcome.code == 0);
        return json::parse(outcome.out).at("memory_of_params").at("recipes").at(0).at("activations").get<double>();
    };
    const double all = bytes_of("plain.yaml"), few = bytes_of("plain.yaml --ckpt");
    CHECK(few < all / 4);
    CHECK(bytes_of("saved.yaml") == few);
    CHECK(bytes_of("saved.toml") == bytes_of("amp-bf16 --ckpt"));
    CHECK(bytes_of("amp-bf16") > bytes_of("saved.toml"));
    fs::remove_all(scratch());
}

}  // namespace policy_advise_test
