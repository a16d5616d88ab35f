// SPDX-License-Identifier: Apache-2.0
// Tests imports of verl's FSDP engine: the formats by version and by the code that trains the actor, each finding, and
// the three kinds of config.
#include "tests/configs/imported.hpp"

namespace import_verl_test {

using namespace macheps;
using namespace macheps::configs;
using test::Imported;

namespace {

/// Imports a config of PPO. `section` contains keys of the actor's FSDP section.
Imported ppo(const std::string& section, const char* version, const std::string& rest = "",
             const std::string& strategy = "fsdp") {
    return Imported("{actor_rollout_ref: {model: {path: m}, actor: {strategy: " + strategy + ", fsdp_config: {" +
                        section + "}}, rollout: {name: vllm}}" + rest + "}",
                    {.framework = "verl", .version = version, .device = "h100"});
}

constexpr const char* fp16_parameters = "mixed_precision: {param_dtype: fp16, reduce_dtype: fp32}";

}  // namespace

TEST_CASE("verl's formats follow the version and the code that trains the actor", "[import][verl]") {
    const struct {
        const char *section, *version, *rest;
        const char *store, *compute, *reduce, *scaler, *oplist;
        const char* why;
    } rows[] = {
        {"", "0.9", "", "F", "B", "F", "none", "torch-cuda", "the defaults"},
        {"", "0.5", "", "F", "B", "F", "none", "torch-cuda", "the same in the oldest version"},
        {"model_dtype: bf16", "0.9", "", "B", "B", "F", "none", "torch-cuda", "shards in bf16"},
        {fp16_parameters, "0.8", "", "F", "H", "F", "torch-sharded", "torch-cuda", "autocast follows the parameters"},
        {fp16_parameters, "0.7.1", "", "F", "B", "F", "none", "torch-cuda", "autocast follows dtype"},
        {fp16_parameters, "0.6.0", "", "F", "B", "F", "none", "torch-cuda", "autocast is always bf16"},
        {"dtype: float16", "0.6.1", "", "F", "H", "F", "torch-sharded", "torch-cuda", "the worker reads dtype"},
        {"dtype: float16", "0.7.1", ", trainer: {use_legacy_worker_impl: disable}", "F", "B", "F", "none", "torch-cuda",
         "the engine of 0.7 has a fixed format"},
        {"dtype: float16", "0.8", "", "F", "B", "F", "none", "torch-cuda", "the engine does not read dtype"},
        {"mixed_precision: {param_dtype: fp32}", "0.8", "", "F", "F", "F", "none", "none", "no autocast in fp32"},
        {"mixed_precision: {param_dtype: fp32}", "0.7.1", "", "F", "B", "F", "none", "torch-cuda",
         "autocast in bf16 over parameters in fp32"},
        {"mixed_precision: {reduce_dtype: bf16}", "0.9", "", "F", "B", "B", "none", "torch-cuda", "low sums"},
        {"mixed_precision: {param_dtype: '16'}", "0.9", "", "F", "H", "F", "torch-sharded", "torch-cuda",
         "verl reads 16 as fp16"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.section, row.version, row.rest, row.why);
        const Imported config = ppo(row.section, row.version, row.rest);
        CHECK(config.field("store") == row.store);
        CHECK(config.field("opt_state") == row.store);
        CHECK(config.field("grad") == row.store);
        CHECK(config.field("compute") == row.compute);
        CHECK(config.field("reduce") == row.reduce);
        CHECK(config.field("scaler") == row.scaler);
        CHECK(config.field("oplist") == row.oplist);
    }
    CHECK(ppo(fp16_parameters, "0.9").part("scaler", "growth_interval") == "400");
    CHECK(ppo("", "0.9").field("clip") == "fsdp1");
    CHECK(ppo("", "0.9", "", "fsdp2").field("clip") == "torch");
    CHECK(ppo("mixed_precision: {buffer_dtype: bf16}", "0.9").field("buffers") == "B");
    const Imported narrow(
        "{actor_rollout_ref: {actor: {optim: {optimizer: AdamW8bit, optimizer_impl: torchao.optim}}}}");
    CHECK(narrow.field("opt_state") == "int8");
    CHECK(narrow.field("opt_kernel") == "fused");
    CHECK(ppo("", "0.9").field("opt_kernel") == "single");
    CHECK(ppo("mixed_precision: {buffer_dtype: bf16}", "0.9", "", "fsdp2").field("buffers") == "F");
}

TEST_CASE("each finding about a verl config is reported in the cases that this test lists, and in no others",
          "[import][verl]") {
    const struct {
        const char *section, *version, *strategy, *finding;
        bool fires;
    } rows[] = {
        {fp16_parameters, "0.7.1", "fsdp", "W verl/param-dtype-ignored", true},
        {fp16_parameters, "0.8", "fsdp", "W verl/param-dtype-ignored", false},
        {"dtype: float16, mixed_precision: {param_dtype: fp16}", "0.7.1", "fsdp", "W verl/param-dtype-ignored", false},
        {"dtype: float16", "0.8", "fsdp", "W verl/dtype-unread", true},
        {"dtype: float16", "0.7.1", "fsdp", "W verl/dtype-unread", false},
        {"dtype: bfloat16", "0.8", "fsdp", "W verl/dtype-unread", false},
        {"model_dtype: bfloat16", "0.9", "fsdp2", "W verl/no-master", true},
        {"model_dtype: fp32", "0.9", "fsdp2", "W verl/no-master", false},
        {"mixed_precision: {reduce_dtype: bf16}", "0.9", "fsdp", "W verl/fsdp-low-reduce", true},
        {"mixed_precision: {param_dtype: bf16}", "0.9", "fsdp", "W verl/fsdp-low-reduce", false},
        {"mixed_precision: {buffer_dtype: bf16}", "0.9", "fsdp", "W verl/buffers-cast", true},
        {"mixed_precision: {buffer_dtype: bf16}", "0.9", "fsdp2", "W verl/buffers-cast", false},
        {fp16_parameters, "0.9", "fsdp", "W verl/rollout-dtype", true},
        {"", "0.9", "fsdp", "W verl/rollout-dtype", false},
        {"model_dtype: int8", "0.9", "fsdp", "E verl/no-such-precision", true},
        {"model_dtype: bf16", "0.9", "fsdp", "E verl/no-such-precision", false},
        {"", "0.9", "megatron", "E verl/engine-unread", true},
        {"", "0.9", "fsdp2", "E verl/engine-unread", false},
        {"", "0.9", "fsdp", "N verl/skips-nonfinite", true},
        {fp16_parameters, "0.9", "fsdp", "N verl/skips-nonfinite", false},
        {"", "0.9", "fsdp", "N verl/actor-only", true},
        {"dtype: float32", "0.9", "fsdp", "E verl/no-such-choice", true},
        {"mixed_precison: {param_dtype: fp16}", "0.9", "fsdp", "U verl/unknown-key", true},
        {"qat: {enable: true, mode: w4a16}", "0.9", "fsdp", "W verl/qat-unread", true},
        {"qat: {enable: false, mode: w4a16}", "0.9", "fsdp", "W verl/qat-unread", false},
        {"fsdp_size: -1, wrap_policy: {min_num_params: 0}", "0.9", "fsdp", "U verl/unknown-key", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.section, row.version, row.strategy, row.finding);
        const Imported config = ppo(row.section, row.version, "", row.strategy);
        CAPTURE(config.findings("EUWCN"));
        CHECK(config.has(row.finding) == row.fires);
    }
    const Imported quantised = ppo("qat: {enable: true, mode: w4a16}", "0.9");
    CHECK_FALSE(test::find_rule(quantised.result(), "verl/qat-unread")->not_emulated.empty());
    // The worker trains by default. The fault of the history is one of the engine.
    const std::string by_engine = ", trainer: {use_legacy_worker_impl: disable}";
    CHECK(ppo(fp16_parameters, "0.7.1", by_engine).has("E verl/verl-param-dtype"));
    CHECK_FALSE(ppo(fp16_parameters, "0.7.1", by_engine).has("W verl/param-dtype-ignored"));
    CHECK_FALSE(ppo(fp16_parameters, "0.7.1").has("E verl/verl-param-dtype"));
    const std::string sft = "{engine: {strategy: fsdp, mixed_precision: {param_dtype: fp16}}, model: {path: m}}";
    const Imported by_sft(sft, {.framework = "verl", .version = "0.7.1"});
    CHECK(by_sft.has("E verl/verl-param-dtype"));
    CHECK(test::find_rule(by_sft.result(), "verl/verl-param-dtype")->key == "engine.mixed_precision.param_dtype");
    CHECK_FALSE(ppo("mixed_precision: {param_dtype: bf16}", "0.7.1", by_engine).has("E verl/verl-param-dtype"));
}

TEST_CASE("verl's SFT configs and files of the engine are read like the section of the actor", "[import][verl]") {
    const Imported sft(
        "{engine: {_target_: verl.workers.config.FSDPEngineConfig, strategy: fsdp2, model_dtype: bf16, "
        "mixed_precision: {param_dtype: fp16}}, model: {path: m}, optim: {clip_grad: 0.5}}");
    CHECK(sft.result().framework->name == "verl");
    CHECK(sft.field("store") == "B");
    CHECK(sft.field("compute") == "H");
    CHECK(sft.field("clip") == "torch");
    CHECK(sft.part("clip", "max") == "0.5");
    CHECK(sft.has("W verl/no-master"));
    CHECK(sft.findings("U").empty());
    const Imported engine("{_target_: verl.workers.config.FSDPEngineConfig, strategy: fsdp, model_dtype: bf16}");
    CHECK(engine.result().framework->name == "verl");
    CHECK(engine.field("store") == "B");
    CHECK_FALSE(engine.has("N verl/actor-only"));
}

TEST_CASE("Hydra's prefixes of overrides add and remove keys of a verl config", "[import][verl]") {
    const test::ConfigFolder folder;
    const std::string file = folder.write(
        "ppo.yaml",
        "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {model_dtype: bf16}}}, trainer: {a: 1}}");
    const std::string key = "actor_rollout_ref.actor.fsdp_config.";
    const auto store_and_compute = [&](const std::vector<std::string>& overrides) {
        std::vector<std::string> arguments{file};
        arguments.insert(arguments.end(), overrides.begin(), overrides.end());
        return test::fields_of(test::import_files(arguments, {}), {"store", "compute"});
    };
    CHECK(store_and_compute({}) == "store=B compute=B");
    CHECK(store_and_compute({"+" + key + "mixed_precision.param_dtype=fp16"}) == "store=B compute=H");
    CHECK(store_and_compute({"++" + key + "model_dtype=fp32"}) == "store=F compute=B");
    CHECK(store_and_compute({"~" + key + "model_dtype=bf16"}) == "store=F compute=B");
}

TEST_CASE("Hydra's own options are not keys, and another config of verl leaves the defaults open", "[import][verl]") {
    const std::string program = "python3 -m verl.trainer.main_ppo ", model = "actor_rollout_ref.actor.";
    const auto import = [&](const std::string& arguments) { return Imported(program + arguments, {.file = "run.sh"}); };
    for (const char* options :
         {"--config-path=config --config-name=ppo_trainer.yaml", "--config-name sft_trainer", "-cn ppo_trainer",
          "-cd more", "--multirun", "-m", "--cfg job", "--info", "hydra.run.dir=out", "--resolve"}) {
        CAPTURE(options);
        const Imported found = import(std::string(options) + " " + model + "strategy=fsdp2");
        CHECK(found.findings("U").empty());
        CHECK_FALSE(found.has("N verl/config-unread"));
        CHECK(found.field("clip") == "torch");  // of FSDP 2: an option without a value does not take the override
        CHECK(found.field("store") == "F");
    }
    for (const char* options : {"--config-name=ppo_megatron_trainer.yaml", "-cn my_trainer",
                                "--config-path=/my/configs", "--config-path=other -cn ppo_trainer"}) {
        CAPTURE(options);
        const Imported found =
            import(std::string(options) + " " + model + "strategy=fsdp " + model + "fsdp_config.model_dtype=fp16 " +
                   model + "fsdp_config.mixed_precision.param_dtype=fp16");
        CHECK(found.findings("U").empty());
        CHECK_FALSE(found.has("D verl/default"));
        CHECK(found.has("N verl/config-unread"));
        CHECK(found.has("W verl/no-master"));
        CHECK(found.field("store") == "H");
        CHECK(found.field("compute") == "H");
        for (const char* of_default : {"reduce", "clip", "ckpt", "opt_kernel"}) CHECK(found.field(of_default).empty());
        for (const configs::ResolvedField* field : found.result().resolved.fields())
            CHECK(field->from.find("default of verl") == std::string::npos);
        CHECK_FALSE(found.has("W verl/rollout-dtype"));  // the format of the rollout is not known
        // Without the engine, no format is known.
        CHECK(import(std::string(options) + " actor_rollout_ref.model.path=m").field("store").empty());
    }
    CHECK(import(model + "fsdp_config.mixed_precision.param_dtype=fp16").has("W verl/rollout-dtype"));
    const Imported engine = import("--config-name=ppo_megatron_trainer " + model + "strategy=megatron");
    CHECK(engine.has("E verl/engine-unread"));
}

TEST_CASE("a config of verl that the user gives has the defaults of its command", "[import][verl]") {
    const test::ConfigFolder folder;
    const std::vector<std::string> files{
        folder.write("mine.yaml", "{actor_rollout_ref: {actor: {strategy: fsdp, fsdp_config: {model_dtype: bf16}}}}"),
        folder.write("run.sh", "python3 -m verl.trainer.main_ppo --config-name=mine actor_rollout_ref.model.path=m")};
    const configs::ImportResult result = test::import_files(files, {});
    CHECK(test::find_rule(result, "verl/config-unread") == nullptr);
    CHECK(test::fields_of(result, {"store", "reduce"}) == "store=B reduce=F");
}

}  // namespace import_verl_test
