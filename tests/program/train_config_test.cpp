// SPDX-License-Identifier: Apache-2.0
// Tests `macheps train --config`: configs become policies, findings are reported, and invalid configs are refused.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace train_config_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

constexpr const char* deepspeed =
    "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 16, \"loss_scale_window\": 1000, \"hysteresis\": 2,\n"
    "  \"min_loss_scale\": 1}, \"zero_optimization\": {\"stage\": 2}, \"gradient_clipping\": 1.0,\n"
    "  \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 2e-4, \"betas\": [0.8, 0.99], \"eps\": 1e-7}},\n"
    "  \"gradient_accumulation_steps\": 2, \"train_micro_batch_size_per_gpu\": 2}\n";
constexpr const char* arguments = "{bf16: true, fp16: false, max_grad_norm: 0.5, learning_rate: 3.0e-4}\n";

/// Returns the entry of a policy in the manifest of a run.
json policy_in(const std::string& run, const std::string& name) {
    return json::parse(contents(scratch() / run / "manifest.json")).at("policies").at(name);
}

/// Returns the cells of the column `name` of a CSV file, in the rows of one policy.
std::vector<std::string> column(const std::string& file, const std::string& name, const std::string& policy) {
    std::istringstream lines(contents(scratch() / file));
    std::string line;
    std::getline(lines, line);
    const auto cells = [](const std::string& text) {
        std::vector<std::string> all;
        std::istringstream in(text);
        for (std::string cell; std::getline(in, cell, ',');) all.push_back(cell);
        return all;
    };
    const std::vector<std::string> header = cells(line);
    const auto at = static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
    std::vector<std::string> found;
    while (std::getline(lines, line)) {
        const std::vector<std::string> row = cells(line);
        if (row.at(1) == policy) found.push_back(row.at(at));
    }
    return found;
}

}  // namespace

TEST_CASE("train --config: each file is a policy in addition to fp32, and findings are reported", "[program][config]") {
    write("ds.json", deepspeed);
    write("hf.yaml", arguments);
    const Outcome outcome = run(std::string(quick) + "--config ds.json hf.yaml -q --out run");
    CAPTURE(outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    for (const char* name : {"fp32", "ds", "hf"})
        CHECK(outcome.out.find(std::string("\n") + name + " ") != std::string::npos);
    CHECK(outcome.err.find("[deepspeed/growth-step-half-gradient]") != std::string::npos);
    CHECK(outcome.err.find("ds.json as ds: DeepSpeed") != std::string::npos);
    CHECK(outcome.err.find("[transformers/harness-setting]") != std::string::npos);
    const json ds = policy_in("run", "ds");
    CHECK(ds.at("config").at("files").at(0).at("text") == deepspeed);
    CHECK(ds.at("config").at("framework") == "deepspeed");
    const std::string toml = ds.at("toml");
    for (const char* line : {"beta1 = 0.8\n", "beta2 = 0.99\n", "eps = 1e-07\n", "formula = \"deepspeed\"\n",
                             "max_norm = 1.0\n", "micro_batches = 2\n", "kernel = \"multi-tensor\"\n"}) {
        CAPTURE(line, toml);
        CHECK(toml.find(line) != std::string::npos);
    }
    CHECK(toml.find("lr = ") == std::string::npos);
    CHECK_FALSE(policy_in("run", "fp32").contains("config"));
    // The policy ds also differs from fp32 in settings of the optimiser, which contribute to its gap. train and report
    // must warn about this.
    const std::string also =
        "warning: ds differs from fp32 in more than precision, and all of the differences contribute to its gap: "
        "micro_batches 2 (fp32: 1), beta1 0.8 (fp32: 0.9), beta2 0.99 (fp32: 0.95), eps 1e-07 (fp32: 1e-08).\n";
    CHECK(outcome.out.find(also) != std::string::npos);
    CHECK(run("report run").out.find(also) != std::string::npos);
    CHECK(outcome.out.find("hf differs from fp32 in more than precision, ") != std::string::npos);  // hf clips at 0.5
    fs::remove_all(scratch());
}

TEST_CASE("train --config: the added fp32 baseline has the settings on which all configs agree", "[program][config]") {
    write("ds.json", deepspeed);
    const Outcome alone = run(std::string(quick) + "--config ds.json --take lr -q --out alone");
    CAPTURE(alone.out, alone.err);
    REQUIRE(alone.code == 0);
    CHECK(
        alone.err.find("fp32 takes these settings from the configs: kind adamw, lr 0.0002, beta1 0.8, beta2 0.99, eps "
                       "1e-07, max_norm 1, micro_batches 2;") != std::string::npos);
    CHECK(alone.out.find("in more than precision") == std::string::npos);  // only the precision differs: no warning
    CHECK_FALSE(json::parse(contents(scratch() / "alone/manifest.json")).contains("beside_precision"));
    const std::string toml = policy_in("alone", "fp32").at("toml");
    CHECK(toml.find("beta1 = 0.8\n") != std::string::npos);
    CHECK(toml.find("kernel") == std::string::npos);  // Adam's kernel counts as precision: fp32 keeps its own
    CHECK(toml.find("formula") == std::string::npos);
    const auto rates = column("alone/steps.csv", "lr", "fp32");
    CHECK(rates == column("alone/steps.csv", "lr", "ds"));
    const auto initial = column("alone/evals.csv", "eval_loss", "fp32");

    // If --policy names fp32, or if the configs agree on no setting, the baseline is the preset fp32.
    REQUIRE(run(std::string(quick) + "--policy fp32 --config ds.json -q --out named").code == 0);
    CHECK(policy_in("named", "fp32").at("toml").get<std::string>().find("beta1") == std::string::npos);
    CHECK(json::parse(contents(scratch() / "named/manifest.json")).contains("beside_precision"));
    CHECK(initial != column("named/evals.csv", "eval_loss", "fp32"));

    // The option --from repeats the baseline that was added, like any other policy.
    REQUIRE(run("train --from alone/manifest.json -q --out again").code == 0);
    CHECK(contents(scratch() / "alone/steps.csv") == contents(scratch() / "again/steps.csv"));
    fs::remove_all(scratch());
}

TEST_CASE("train --config: the verdict, the manifest and the page say what is not emulated", "[program][config]") {
    write("lora.yaml", "base_model: a\nadapter: lora\nbf16: true\noptimizer: adamw_bnb_8bit\n");
    const Outcome outcome = run(std::string(quick) + "--config lora.yaml -q --out run");
    CAPTURE(outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    const json parts = policy_in("run", "lora").at("config").at("not_emulated");
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].get<std::string>().starts_with("adapters are not emulated: the whole model is trained"));
    CHECK(parts[1] == "int8 moments are not emulated: the policy keeps them in fp32");
    CHECK_FALSE(policy_in("run", "fp32").contains("config"));
    for (const json& part : parts) {
        const std::string text = part;
        CAPTURE(text);
        CHECK(outcome.out.find("; " + text) != std::string::npos);
        CHECK(run("report run").out.find("; " + text) != std::string::npos);
        CHECK(contents(scratch() / "run/report.html").find(text) != std::string::npos);
    }
    // The statements are kept when the run is repeated.
    REQUIRE(run("train --from run/manifest.json -q --out again").code == 0);
    CHECK(policy_in("again", "lora").at("config").at("not_emulated") == parts);
    fs::remove_all(scratch());
}

TEST_CASE("train --config: SGD of a config is trained without momentum", "[program][config]") {
    write("sgd.yaml", "bf16: true\noptim: sgd\nweight_decay: 0.01\noutput_dir: out\n");
    const Outcome outcome = run(std::string(quick) + "--config sgd.yaml -q --out run");
    CAPTURE(outcome.out, outcome.err);
    REQUIRE(outcome.code == 0);
    const std::string toml = policy_in("run", "sgd").at("toml");
    for (const char* line : {"kind = \"sgd\"\n", "momentum = 0.0\n", "weight_decay = 0.01\n"})
        CHECK(toml.find(line) != std::string::npos);
    CHECK(outcome.out.find("not emulated") == std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("train --config: a run can be repeated and resumed without the file of the config", "[program][config]") {
    write("ds.json", deepspeed);
    REQUIRE(run(std::string(quick) + "--config ds.json -q --out run").code == 0);
    fs::remove(scratch() / "ds.json");
    const Outcome again = run("train --from run/manifest.json -q --out again");
    CAPTURE(again.err);
    REQUIRE(again.code == 0);
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv"})
        CHECK(contents(scratch() / "run" / name) == contents(scratch() / "again" / name));
    CHECK(policy_in("again", "ds") == policy_in("run", "ds"));
    CHECK(run("train --resume run -q").code == 0);
    const Outcome both = run("train --from run/manifest.json --config ds.json --out x");
    CHECK(both.code == 2);
    CHECK(both.err.find("--config cannot be used with --from") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("train --dry-run gives a plan even if the loss scaler of a config ends its runs", "[program][config]") {
    write("ds.json",
          R"({"fp16": {"enabled": true, "initial_scale_power": 32, "min_loss_scale": 4294967296, "hysteresis": 1},
                         "zero_optimization": {"stage": 2}})");
    const Outcome plan = run(std::string(quick) + "--config ds.json --dry-run --json");
    CAPTURE(plan.err);
    CHECK(plan.code == 0);
    const json policies = json::parse(plan.out, nullptr, false)["policies"];
    CHECK(std::any_of(policies.begin(), policies.end(), [](const json& each) { return each["policy"] == "ds"; }));
    // In training, DeepSpeed's scaler ends the run at its floor. This is a result, not an error of the command.
    const Outcome trained = run(std::string(quick) + "--config ds.json -q --json --out run");
    CHECK(trained.out.find("diverged") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("train --config: + joins files into one config, or changes a key", "[program][config]") {
    write("args.yaml", "{bf16: false, fp16: true, output_dir: out}\n");
    write("more.yaml", "{bf16: true, fp16: false}\n");
    const Outcome joined =
        run(std::string(quick) + "--config args.yaml args.yaml+more.yaml args.yaml+max_grad_norm=0.25 -q --out run");
    CAPTURE(joined.err);
    REQUIRE(joined.code == 0);
    const std::string half = policy_in("run", "args").at("toml"), bf16 = policy_in("run", "args+more").at("toml"),
                      clipped = policy_in("run", "args-2").at("toml");
    CHECK(half.find("extends     = \"amp-fp16\"") != std::string::npos);
    CHECK(bf16.find("extends     = \"amp-bf16\"") != std::string::npos);
    CHECK(clipped.find("max_norm = 0.25") != std::string::npos);
    CHECK(policy_in("run", "args+more").at("config").at("files").size() == 2);
    fs::remove_all(scratch());
}

TEST_CASE("train --config: the manifest keeps the text of files that a config names", "[program][config]") {
    for (const char* folder : {"sub", "conf"}) fs::create_directories(scratch() / folder);
    const std::string section = "{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}}\n";
    write("sub/ds.json", section);
    const std::string args = "{fp16: true, bf16: false, output_dir: out, deepspeed: sub/ds.json}\n";
    write("args.yaml", args);
    const std::string base =
        "{ds_cfg: {bf16: {enabled: false}, fp16: {enabled: true, initial_scale_power: 12}, zero_optimization: {stage: "
        "1}}}\n";
    write("conf/base.yaml", base);
    const std::string hydra = "{defaults: [base, _self_], fp16: true, model: {gradient_checkpointing: false}}\n";
    write("conf/longspec.yaml", hydra);
    const Outcome named = run(std::string(quick) + "--config args.yaml -q --out named");
    CAPTURE(named.err);
    REQUIRE(named.code == 0);
    const Outcome composed =
        run(std::string(quick) + "--config conf/longspec.yaml --framework longspec -q --out composed");
    CAPTURE(composed.err);
    REQUIRE(composed.code == 0);
    const auto files_of = [](const char* directory, const char* policy) {
        std::vector<std::pair<std::string, std::string>> files;
        const json kept = policy_in(directory, policy);
        for (const json& file : kept.at("config").at("files")) files.emplace_back(file.at("name"), file.at("text"));
        return files;
    };
    using Files = std::vector<std::pair<std::string, std::string>>;
    CHECK(files_of("named", "args") == Files{{"args.yaml", args}, {"sub/ds.json", section}});
    CHECK(files_of("composed", "longspec") == Files{{"conf/longspec.yaml", hydra}, {"conf/base.yaml", base}});
    fs::remove_all(scratch());
}

TEST_CASE("train --config: gradient checkpointing reduces the bytes of activations and changes no result",
          "[program][config]") {
    write("args.yaml", "{bf16: true, fp16: false, output_dir: out}\n");
    const Outcome both =
        run(std::string(quick) + "--config args.yaml args.yaml+gradient_checkpointing=true -q --out run");
    CAPTURE(both.err);
    REQUIRE(both.code == 0);
    CHECK(policy_in("run", "args-2").at("toml").get<std::string>().find("recompute = true") != std::string::npos);
    const auto kept = column("run/runs.csv", "bytes_activations", "args"),
               again = column("run/runs.csv", "bytes_activations", "args-2");
    REQUIRE(kept.size() == again.size());
    REQUIRE_FALSE(kept.empty());
    for (std::size_t seed = 0; seed < kept.size(); ++seed) CHECK(std::stoll(again[seed]) < std::stoll(kept[seed]));
    CHECK(column("run/runs.csv", "bytes_grads", "args") == column("run/runs.csv", "bytes_grads", "args-2"));
    CHECK(column("run/steps.csv", "loss", "args") == column("run/steps.csv", "loss", "args-2"));
    CHECK(column("run/steps.csv", "update_norm", "args") == column("run/steps.csv", "update_norm", "args-2"));
    fs::remove_all(scratch());
}

TEST_CASE("train --config: a step with too few samples for its micro-batches is divided into fewer, with a warning",
          "[program][config]") {
    write("many.yaml", "{bf16: true, fp16: false, gradient_accumulation_steps: 3}\n");
    const Outcome outcome = run(std::string(quick) + "--config many.yaml -q --out run");
    CHECK(outcome.code == 0);
    CHECK(outcome.err.find("many asks for 3 micro-batches, but a step has 1 x 2 samples; the step is divided into 2") !=
          std::string::npos);
    CHECK(column("run/steps.csv", "tokens", "many") == column("run/steps.csv", "tokens", "fp32"));
    fs::remove_all(scratch());
}

TEST_CASE("train --config: --take lr takes the config's learning rate", "[program][config]") {
    write("hf.yaml", arguments);
    REQUIRE(run(std::string(quick) + "--config hf.yaml -q --out run").code == 0);
    REQUIRE(run(std::string(quick) + "--config hf.yaml --take lr -q --out taken").code == 0);
    CHECK(column("run/steps.csv", "lr", "hf") == column("run/steps.csv", "lr", "fp32"));
    CHECK(column("taken/steps.csv", "lr", "hf").front() == "3e-04");
    CHECK(column("taken/steps.csv", "lr", "fp32") == column("taken/steps.csv", "lr", "hf"));  // also for fp32
    REQUIRE(run(std::string(quick) + "--policy fp32 --config hf.yaml --take lr -q --out named").code == 0);
    CHECK(column("named/steps.csv", "lr", "fp32") == column("run/steps.csv", "lr", "fp32"));
    const Outcome lost = run(std::string(quick) + "--take lr --policy amp-bf16");
    CHECK(lost.code == 2);
    CHECK(lost.err.find("--take") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("train --config: LLaMA-Factory's, Axolotl's and LongSpec's configs train a llama", "[program][config]") {
    const std::pair<const char*, const char*> llamas[] = {
        {"lf.yaml", "{stage: pt, do_train: true, finetuning_type: full, bf16: true}\n"},
        {"axolotl.yaml", "{base_model: my/model, bf16: auto, micro_batch_size: 1}\n"},
        {"longspec.yaml",
         "{fp16: true, ds_cfg: {bf16: {enabled: false}, fp16: {enabled: true, loss_scale: 0}, zero_optimization: "
         "{stage: 1}}, model_name: glide}\n"}};
    for (const auto& [name, text] : llamas) {
        write(name, text);
        const Outcome outcome = run(std::string(quick) + "--config " + name + " -q --force --out run");
        CAPTURE(name, outcome.err);
        REQUIRE(outcome.code == 0);
        CHECK(json::parse(contents(scratch() / "run/manifest.json")).at("model").at("kind") == "llama");
    }
    CHECK(run(std::string(quick) + "--config axolotl.yaml --model gpt2 -q --force --out run").code == 0);
    CHECK(json::parse(contents(scratch() / "run/manifest.json")).at("model").at("kind") == "gpt2");
    fs::remove_all(scratch());
}

TEST_CASE("train --config: a config that its framework or macheps refuses never trains", "[program][config]") {
    write("axolotl.yaml", "{base_model: my/model, bf16: full}\n");
    write("scaler.yaml", "{autocast: {enabled: false}, model_dtype: float16, grad_scaler: {}}\n");
    write("hf.yaml", arguments);
    write("classes.yaml",
          "{base_model: my/model, bf16: true, fp32_norms: true, fp32_norm_classes: [FooNorm], fsdp_version: 2, "
          "fsdp_config: {reshard_after_forward: true}}\n");
    write("modules.json",
          "{\"torch_autocast\": {\"enabled\": true, \"lower_precision_safe_modules\": [\"my.Thing\"]}}\n");
    const std::pair<const char*, const char*> refused[] = {{"axolotl.yaml", "axolotl/bf16-full"},
                                                           {"scaler.yaml", "torch/fp16-gradients"},
                                                           {"classes.yaml", "axolotl/norm-classes-match-nothing"},
                                                           {"modules.json", "deepspeed/safe-modules-match-nothing"}};
    for (const auto& [name, rule] : refused) {
        const Outcome outcome = run(std::string(quick) + "--config hf.yaml " + name + " --out run");
        CAPTURE(name, outcome.err);
        CHECK(outcome.code == 1);
        CHECK(outcome.err.find(rule) != std::string::npos);
        CHECK_FALSE(fs::exists(scratch() / "run"));
    }
    // The framework accepts a name that matches no module in macheps' models, so the import succeeds.
    for (const char* name : {"classes.yaml", "modules.json"})
        CHECK(run(std::string("policy import ") + name).code == 0);
    CHECK(run(std::string(quick) + "--config missing.json").code == 3);
    write("list.json", "[1, 2]");
    CHECK(run(std::string(quick) + "--config list.json").code == 3);
    fs::remove_all(scratch());
}

TEST_CASE("train --config: an fp8 recipe that is defined only in the user's program is refused", "[program][config]") {
    write("fp8.args", "--num-layers 2 --bf16 --fp8-format hybrid --fp8-recipe custom\n");
    const Outcome outcome = run(std::string(quick) + "--config fp8.args --gpu h100 --out run");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("the fp8 recipe custom") != std::string::npos);
    CHECK(outcome.err.find("fp8.args:1:") != std::string::npos);
    CHECK_FALSE(fs::exists(scratch() / "run"));
    fs::remove_all(scratch());
}

TEST_CASE("train --config: results do not depend on the threads or the SIMD path", "[program][config]") {
    write("ds.json", deepspeed);
    write("pure.yaml", "{autocast: {enabled: false}, model_dtype: bfloat16, fused: true, max_norm: 0.01}\n");
    const std::string command = std::string(quick) + "--config ds.json pure.yaml -q --out ";
    REQUIRE(run(command + "a --threads 1 --jobs 1").code == 0);
    REQUIRE(run(command + "b --threads 3 --jobs 2", "MACHEPS_SIMD=scalar").code == 0);
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"})
        CHECK(contents(scratch() / "a" / name) == contents(scratch() / "b" / name));
    fs::remove_all(scratch());
}

TEST_CASE("train --config: a file that another config names never becomes a separate policy, in any order of files",
          "[program][config]") {
    write("ds_z3.json",
          "{\"fp16\": {\"enabled\": \"auto\", \"loss_scale\": 0, \"initial_scale_power\": 16},\n"
          " \"bf16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 3}}\n");
    write("sft.yaml",
          "{model_name_or_path: my/model, stage: sft, do_train: true, finetuning_type: full, fp16: true,\n"
          " deepspeed: ds_z3.json}\n");
    std::vector<std::string> tomls;
    for (const char* files :
         {"sft.yaml ds_z3.json", "ds_z3.json sft.yaml", "sft.yaml+ds_z3.json", "ds_z3.json+sft.yaml"}) {
        CAPTURE(files);
        const Outcome outcome = run(std::string(quick) + "--config " + files +
                                    " --checkpoint-dtype fp32 --stress none -q --force --out run");
        CAPTURE(outcome.out, outcome.err);
        REQUIRE(outcome.code == 0);
        CHECK(outcome.err.find("refuses") == std::string::npos);
        const json policies = json::parse(contents(scratch() / "run/manifest.json")).at("policies");
        CHECK(policies.size() == 2);  // fp32 and the config
        for (const auto& [name, policy] : policies.items()) {
            if (name == "fp32") continue;
            const std::string toml = policy.at("toml");
            CHECK(toml.find("extends     = \"pure-fp16\"") != std::string::npos);
            tomls.push_back(toml.substr(toml.find("extends")));
            CHECK(policy.at("config").at("framework") == "llamafactory");
            CHECK(policy.at("config").at("files").size() == 2);
        }
    }
    REQUIRE(tomls.size() == 4);
    for (const std::string& toml : tomls) CHECK(toml == tomls.front());
    // The sign `+` between two configs is an error if they belong to two frameworks and neither names the other.
    write("hf.yaml", arguments);
    write("ds.json", deepspeed);
    const Outcome joined = run(std::string(quick) + "--config hf.yaml+ds.json -q --out joined");
    CHECK(joined.code == 3);
    CHECK(joined.err.find("neither names the other") != std::string::npos);
    fs::remove_all(scratch());
}

}  // namespace train_config_test
