// SPDX-License-Identifier: Apache-2.0
// Tests imports of configs of Lightning and LitGPT: the words of `precision`, FSDP by version, DeepSpeed, and the
// combinations that Lightning refuses.
#include "tests/configs/imported.hpp"

namespace import_lightning_test {

using namespace macheps;
using namespace macheps::test;

namespace {

/// Returns a config of LightningCLI with these arguments of Trainer.
std::string trainer(std::string_view arguments) {
    return fmt::format("{{trainer: {{{}, max_steps: 10}}, model: {{class_path: my.Model}}}}", arguments);
}

constexpr const char* litgpt = "checkpoint_dir: c\nout_dir: o\ntrain: {global_batch_size: 8, micro_batch_size: 2}\n";

}  // namespace

TEST_CASE("each word of Lightning's precision has its formats and its scaler", "[import][lightning]") {
    const auto [word, expected, scaler, refused] = GENERATE(table<const char*, const char*, const char*, bool>({
        {"16-mixed", "store=F compute=H oplist=torch-cuda reduce=F opt_state=F", "torch", false},
        {"16", "store=F compute=H oplist=torch-cuda reduce=F opt_state=F", "torch", false},
        {"bf16-mixed", "store=F compute=B oplist=torch-cuda reduce=F opt_state=F", "none", false},
        {"bf16", "store=F compute=B oplist=torch-cuda reduce=F opt_state=F", "none", false},
        {"16-true", "store=H compute=H oplist=none reduce=H opt_state=H", "none", false},
        {"bf16-true", "store=B compute=B oplist=none reduce=B opt_state=B", "none", false},
        {"32", "store=F compute=F oplist=none reduce=F opt_state=F", "none", false},
        {"32-true", "store=F compute=F oplist=none reduce=F opt_state=F", "none", false},
        {"64-true", "store=F compute=F oplist=none reduce=F opt_state=F", "none", false},
        {"transformer-engine", "store=B compute=te_delayed oplist=torch-cuda reduce=B opt_state=B", "none", false},
        {"bf16-half", "store=F compute=F oplist=none reduce=F opt_state=F", "none", true},
    }));
    CAPTURE(word);
    const Imported config(trainer(fmt::format("precision: {}", word)), {.device = "h100"});
    CHECK(config.result().framework->name == "lightning");
    CHECK(fields_of(config.result(), {"store", "compute", "oplist", "reduce", "opt_state"}) == expected);
    CHECK(config.field("scaler") == scaler);
    CHECK(config.result().refused() == refused);
}

TEST_CASE("Lightning's FSDP gathers in fp32 before 2.6.0, and makes low parameters until 2.6.3",
          "[import][lightning]") {
    const auto [version, precision, expected] = GENERATE(table<const char*, const char*, const char*>({
        {"2.5.6", "bf16-mixed", "store=F compute=B reduce=B buffers=B embed=F opt_state=F scaler=none"},
        {"2.6.0", "bf16-mixed", "store=B compute=B reduce=B buffers=B embed=B opt_state=B scaler=none"},
        {"2.6.3", "bf16-mixed", "store=B compute=B reduce=B buffers=B embed=B opt_state=B scaler=none"},
        {"2.6.4", "bf16-mixed", "store=F compute=B reduce=B buffers=B embed=B opt_state=F scaler=none"},
        {"2.5.6", "16-mixed", "store=F compute=H reduce=H buffers=H embed=F opt_state=F scaler=torch-sharded"},
        {"2.6.4", "16-mixed", "store=F compute=H reduce=H buffers=H embed=H opt_state=F scaler=torch-sharded"},
        {"2.4.0", "bf16-true", "store=F compute=B reduce=B buffers=B embed=B opt_state=F scaler=none"},
        {"2.4.0", "16-true", "store=F compute=H reduce=H buffers=H embed=H opt_state=F scaler=none"},
        {"2.5.6", "bf16-true", "store=B compute=B reduce=B buffers=B embed=B opt_state=B scaler=none"},
        {"2.6.4", "32-true", "store=F compute=F reduce=F buffers=F embed=F opt_state=F scaler=none"},
    }));
    CAPTURE(version, precision);
    const Imported config(trainer(fmt::format("strategy: fsdp, precision: {}", precision)), {.version = version});
    CHECK(fields_of(config.result(), {"store", "compute", "reduce", "buffers", "embed", "opt_state", "scaler"}) ==
          expected);
    CHECK(config.has("W lightning/fsdp-low-reduce") == (std::string_view(precision) != "32-true"));
    const bool is_true = std::string_view(precision) == "bf16-true" || std::string_view(precision) == "16-true";
    const bool keeps_fp32 = std::string_view(version) == "2.4.0";
    // From 2.6.0 to 2.6.3, a row of the history says it of models that configure_model makes.
    const bool is_low = config.has("W lightning/no-master") || config.has("W lightning/pl-fsdp-mixed-bf16-init");
    CHECK(is_low == (config.field("opt_state") == "B"));
    CHECK(config.has("W lightning/pl-fsdp-true-keeps-fp32") == (is_true && keeps_fp32));
    CHECK(config.has("W lightning/fp16-without-scaler") == (std::string_view(precision) == "16-true"));
    CHECK_FALSE(config.has("W lightning/eps-is-zero"));
}

TEST_CASE("Lightning's DeepSpeed strategy makes the section that `precision` selects", "[import][lightning]") {
    const Imported half(trainer("strategy: deepspeed_stage_2, precision: 16-mixed, gradient_clip_val: 0.5"));
    CHECK(fields_of(half.result(), {"store", "master", "grad", "scaler", "clip"}) ==
          "store=H master=F grad=H scaler=ds-zero clip=deepspeed");
    CHECK(half.part("scaler", "init_scale") == "65536");
    CHECK(half.part("scaler", "growth_interval") == "1000");
    CHECK(half.part("scaler", "hysteresis") == "2");
    CHECK(half.part("clip", "max") == "0.5");
    CHECK(half.has("N lightning/deepspeed-sections"));
    CHECK_FALSE(half.has("W lightning/no-master"));

    const Imported brain(trainer("strategy: deepspeed_stage_3_offload, precision: bf16-true"));
    CHECK(fields_of(brain.result(), {"store", "master", "scaler"}).starts_with("store=B master=F"));

    const std::string named =
        "strategy: {class_path: lightning.pytorch.strategies.DeepSpeedStrategy, init_args: {stage: 1, "
        "initial_scale_power: 20, loss_scale_window: 50}}, precision: 16-mixed";
    const Imported arguments(trainer(named));
    CHECK(arguments.part("scaler", "init_scale") == "1048576");
    CHECK(arguments.part("scaler", "growth_interval") == "50");

    // A config replaces the arguments, and Lightning does not change its section.
    const std::string own =
        "strategy: {class_path: DeepSpeedStrategy, init_args: {stage: 3, initial_scale_power: 20, config: "
        "{zero_optimization: {stage: 2}, fp16: {enabled: true, initial_scale_power: 8}}}}, precision: 16-mixed";
    CHECK(Imported(trainer(own)).part("scaler", "init_scale") == "256");

    {
        std::ofstream(import_folder() / "ds.json")
            << R"({"zero_optimization": {"stage": 1}, "bf16": {"enabled": true}})";
    }
    const std::string file =
        "strategy: {class_path: DeepSpeedStrategy, init_args: {config: ds.json}}, precision: bf16-mixed";
    const Imported from_file(trainer(file));
    CHECK(from_file.result().included.size() == 1);
    CHECK(from_file.field("store") == "B");
    CHECK(from_file.field("master") == "F");
}

TEST_CASE("Lightning refuses, warns about and explains these settings", "[import][lightning]") {
    const std::string fsdp_clip = trainer("strategy: fsdp, precision: bf16-mixed, gradient_clip_val: 1.0"),
                      fsdp_value = trainer("strategy: fsdp, gradient_clip_val: 1.0, gradient_clip_algorithm: value"),
                      fsdp_plain = trainer("strategy: fsdp, precision: bf16-mixed"),
                      fsdp_wide = trainer("strategy: fsdp, precision: 64-true"),
                      ddp_wide = trainer("strategy: ddp, precision: 64-true"),
                      sharded = trainer("strategy: {class_path: ModelParallelStrategy}, precision: 16-mixed"),
                      half = trainer("precision: 16-true"), brain = trainer("precision: bf16-true"),
                      mixed = trainer("precision: 16-mixed"), old = trainer("precision: 16"),
                      clip_ddp = trainer("precision: 16-mixed, gradient_clip_val: 1.0"),
                      engine = trainer("precision: transformer-engine"),
                      foreign = trainer("strategy: {class_path: nemo.lightning.MegatronStrategy}"),
                      plugin = trainer("plugins: [my.Plugin]"),
                      accelerator = trainer("precision: 16-mixed, accelerator: cpu"),
                      ds_value = trainer("strategy: deepspeed, gradient_clip_val: 1.0, gradient_clip_algorithm: value");
    const std::string fused = clip_ddp.substr(0, clip_ddp.size() - 1) +
                              ", optimizer: {class_path: torch.optim.AdamW, init_args: {fused: true, eps: 1.0e-6}}}";
    const auto fused_with = [](const char* settings) {
        const std::string text = trainer(fmt::format("{}, gradient_clip_val: 1.0", settings));
        return text.substr(0, text.size() - 1) +
               ", optimizer: {class_path: torch.optim.AdamW, init_args: {fused: true}}}";
    };
    const std::string fused_bf16 = fused_with("precision: bf16-mixed"), fused_true = fused_with("precision: bf16-true"),
                      fused_fsdp = fused_with("precision: bf16-mixed, strategy: fsdp, gradient_clip_algorithm: value");
    const auto with_eps = [&](const char* eps) {
        return half.substr(0, half.size() - 1) +
               fmt::format(", optimizer: {{class_path: torch.optim.Adam, init_args: {{eps: {}}}}}}}", eps);
    };
    const std::string small_eps = with_eps("1.0e-7"), wide_eps = with_eps("1.0e-4");
    const std::string sgd = half.substr(0, half.size() - 1) + ", optimizer: {class_path: torch.optim.SGD}}";
    check_triggers(
        "lightning",
        {{fsdp_clip.c_str(), "", "a100", "lightning/fsdp-clip-by-norm", 'E', true, "no reference to the root"},
         {fsdp_value.c_str(), "", "a100", "lightning/fsdp-clip-by-norm", 'E', false, "by value"},
         {fsdp_plain.c_str(), "", "a100", "lightning/fsdp-clip-by-norm", 'E', false, "no clipping"},
         {fsdp_plain.c_str(), "", "cpu", "lightning/fsdp-on-cpu", 'E', true, "FSDP needs a GPU"},
         {fsdp_wide.c_str(), "", "a100", "lightning/strategy-precision", 'E', true, "not in FSDP's list"},
         {ddp_wide.c_str(), "", "a100", "lightning/strategy-precision", 'E', false, "DDP takes fp64"},
         {ddp_wide.c_str(), "", "a100", "lightning/fp64", 'W', true, "macheps has no fp64"},
         {sharded.c_str(), "", "a100", "lightning/strategy-precision", 'E', true, "no fp16 scaler there"},
         {ds_value.c_str(), "", "a100", "lightning/deepspeed-clip-by-value", 'E', true, "only by norm"},
         {fused.c_str(), "", "a100", "lightning/fused-clip", 'E', true, "the kernel unscales"},
         {clip_ddp.c_str(), "", "a100", "lightning/fused-clip", 'E', false, "not fused"},
         {fused_bf16.c_str(), "", "a100", "lightning/fused-clip", 'E', true, "the Trainer tests no scaler"},
         {fused_true.c_str(), "", "a100", "lightning/fused-clip", 'E', false, "another plugin"},
         {fused_fsdp.c_str(), "", "a100", "lightning/fused-clip", 'E', false, "FSDP's plugin does not test it"},
         {half.c_str(), "", "a100", "lightning/no-master", 'W', true, "fp16 weights"},
         {half.c_str(), "", "a100", "lightning/fp16-without-scaler", 'W', true, "no scaler"},
         {half.c_str(), "", "a100", "lightning/eps-is-zero", 'W', true, "the default eps"},
         {small_eps.c_str(), "", "a100", "lightning/eps-is-zero", 'W', false, "eps is representable"},
         {small_eps.c_str(), "", "a100", "lightning/eps-is-small", 'W', true, "updates are large"},
         {half.c_str(), "", "a100", "lightning/eps-is-small", 'W', false, "eps is 0"},
         {wide_eps.c_str(), "", "a100", "lightning/eps-is-zero", 'W', false, "eps is representable"},
         {wide_eps.c_str(), "", "a100", "lightning/eps-is-small", 'W', false, "eps limits updates"},
         {sgd.c_str(), "", "a100", "lightning/eps-is-zero", 'W', false, "SGD has no eps"},
         {brain.c_str(), "", "a100", "lightning/no-master", 'W', true, "bf16 weights"},
         {brain.c_str(), "", "a100", "lightning/eps-is-zero", 'W', false, "bf16 has small numbers"},
         {engine.c_str(), "", "a100", "lightning/fp8-unsupported", 'E', true, "no fp8 units"},
         {engine.c_str(), "", "h100", "lightning/fp8-unsupported", 'E', false, "fp8 units"},
         {foreign.c_str(), "", "a100", "lightning/other-strategy", 'W', true, "NeMo's strategy"},
         {mixed.c_str(), "", "a100", "lightning/other-strategy", 'W', false, "auto"},
         {brain.c_str(), "", "v100", "lightning/bf16-emulated", 'W', true, "no bf16 units"},
         {mixed.c_str(), "", "a100", "lightning/no-master", 'W', false, "fp32 weights"},
         {mixed.c_str(), "", "a100", "lightning/old-word", 'N', false, "today's word"},
         {old.c_str(), "", "a100", "lightning/old-word", 'N', true, "16 is 16-mixed"},
         {plugin.c_str(), "", "a100", "lightning/plugins-unread", 'W', true, "may replace precision"},
         {accelerator.c_str(), "", "a100", "lightning/fp16-on-cpu", 'W', true, "bf16-mixed instead"},
         {mixed.c_str(), "", "cpu", "lightning/fp16-on-cpu", 'W', true, "auto is the CPU"}});
    CHECK(Imported(accelerator).field("compute") == "B");
    CHECK(Imported(accelerator).field("oplist") == "torch-cpu");
    CHECK(Imported(accelerator).field("scaler") == "none");
}

TEST_CASE("LitGPT chooses precision by the device, and shards the model on several devices", "[import][lightning]") {
    const std::string base(litgpt);
    const Imported plain(base);
    CHECK(plain.result().framework->name == "lightning");
    CHECK(plain.field("compute") == "B");
    CHECK(plain.field("reduce") == "F");
    CHECK(Imported(base, {.device = "v100"}).field("compute") == "B");  // torch counts emulation
    CHECK(Imported(base + "precision: bf16-true\ndevices: 4\n").field("store") == "B");
    CHECK(Imported(base + "precision: bf16-mixed\ndevices: 4\n").field("reduce") == "B");
    CHECK(Imported(base + "precision: bf16-mixed\ndevices: 1\n").field("reduce") == "F");

    const std::string lora = base + "lora_r: 8\n";
    const Imported qlora(lora + "precision: bf16-true\nquantize: bnb.nf4\n");
    CHECK(fields_of(qlora.result(), {"store", "adapter", "grad", "opt_state"}) ==
          "store=nf4 adapter=B grad=B opt_state=B");
    CHECK(Imported(lora + "precision: bf16-mixed\n").field("adapter") == "F");

    const std::string mixed = lora + "precision: bf16-mixed\nquantize: bnb.nf4\n",
                      sharded = lora + "precision: bf16-true\nquantize: bnb.nf4\ndevices: 2\n",
                      int8 = lora + "precision: bf16-true\nquantize: bnb.int8-training\n",
                      int8_half = lora + "precision: 16-true\nquantize: bnb.int8-training\n",
                      clips = "checkpoint_dir: c\ntrain: {global_batch_size: 8, max_norm: 1.0}\n",
                      pretrains = "model_name: pythia-14m\ntrain: {global_batch_size: 8, max_norm: 1.0}\n";
    check_triggers("lightning",
                   {{mixed.c_str(), "", "a100", "lightning/quantised-and-mixed", 'E', true, "ValueError"},
                    {sharded.c_str(), "", "a100", "lightning/quantised-and-sharded", 'E', true, "NotImplementedError"},
                    {int8.c_str(), "", "a100", "lightning/int8-format", 'E', true, "int8 wants fp16"},
                    {int8_half.c_str(), "", "a100", "lightning/int8-format", 'E', false, "fp16"},
                    {clips.c_str(), "", "a100", "lightning/finetune-clip", 'E', true, "finetune refuses max_norm"},
                    {pretrains.c_str(), "", "a100", "lightning/finetune-clip", 'E', false, "pretrain clips"}});
    CHECK(Imported(pretrains).part("clip", "max") == "1");
    CHECK(Imported(pretrains).field("opt_kernel") == "fused");
}

TEST_CASE("LitGPT's pretrain always asks for a fused optimiser on a GPU, which Fabric cannot clip in fp16",
          "[import][lightning]") {
    const std::string mixed = "model_name: pythia-14m\nprecision: 16-mixed\n",
                      clips = mixed + "train: {global_batch_size: 8, max_norm: 1.0}\n";
    const auto fault = [](const std::string& text, const char* device = "a100") {
        return find_rule(import_text(text, {.device = device}), "lightning/fused-clip") != nullptr;
    };
    CHECK(fault(clips));
    CHECK(fault(clips + "optimizer: torch.optim.Adam\n"));
    CHECK(fault(clips + "optimizer: {class_path: torch.optim.SGD, init_args: {fused: false}}\n"));
    CHECK_FALSE(fault(clips + "optimizer: bitsandbytes.optim.AdamW8bit\n"));
    CHECK_FALSE(fault(clips + "optimizer: {class_path: torch.optim.RMSprop}\n"));
    CHECK_FALSE(fault(clips, "cpu"));
    CHECK_FALSE(fault(clips + "precision: bf16-mixed\n"));  // Fabric tests the scaler
    CHECK_FALSE(fault(clips + "checkpoint_dir: c\n"));
    const configs::ImportResult result = import_text(clips, {.device = "a100"});
    const configs::Finding* found = find_rule(result, "lightning/fused-clip", 'E');
    REQUIRE(found != nullptr);
    CHECK(found->key == "precision");
    CHECK(found->place.line == 2);
    CHECK(found->instead == "precision: bf16-mixed");
    CHECK(std::count(found->keys.begin(), found->keys.end(), "train.max_norm") == 1);
    const configs::ImportResult old = import_text(clips, {.device = "v100"});
    CHECK(find_rule(old, "lightning/fused-clip")->instead == "precision: 32-true");

    // No default of a key decides the kernel, because LitGPT's pretrain does not read such a key.
    const Imported plain("model_name: pythia-14m\nprecision: bf16-mixed\n"), tunes(litgpt);
    CHECK(plain.field("opt_kernel") == "fused");
    CHECK(plain.result().resolved.find("opt_kernel")->origin == configs::Origin::inferred);
    CHECK(tunes.field("opt_kernel") == "single");
    CHECK(tunes.result().resolved.find("opt_kernel")->origin == configs::Origin::inferred);
    const Imported asks(std::string(litgpt) + "optimizer: {class_path: torch.optim.AdamW, init_args: {fused: true}}\n");
    CHECK(asks.field("opt_kernel") == "fused");
    CHECK(asks.result().resolved.find("opt_kernel")->origin == configs::Origin::file);
}

TEST_CASE("LitGPT trains on all devices if devices is auto or -1, and pretrain does so by default",
          "[import][lightning]") {
    const std::string tunes = std::string(litgpt) + "precision: bf16-mixed\n",
                      pretrains = "model_name: pythia-14m\nprecision: bf16-mixed\n";
    CHECK(Imported(tunes + "devices: auto\n").field("reduce") == "B");
    CHECK(Imported(tunes + "devices: -1\n").field("reduce") == "B");
    CHECK(Imported(tunes).field("reduce") == "F");
    CHECK(Imported(pretrains).field("reduce") == "B");
    CHECK(Imported(pretrains + "devices: 1\n").field("reduce") == "F");
}

TEST_CASE("each strategy of Lightning divides the gradients in its own way", "[import][lightning]") {
    const auto [strategy, precision, predivide] = GENERATE(table<const char*, const char*, const char*>({
        {"ddp", "bf16-mixed", "prescale"},
        {"fsdp", "bf16-mixed", "split"},
        {"{class_path: ModelParallelStrategy}", "bf16-mixed", "average"},
        {"{class_path: ModelParallelStrategy}", "bf16-true", "average"},
        {"{class_path: ModelParallelStrategy}", "16-true", "split"},
    }));
    CAPTURE(strategy, precision);
    CHECK(Imported(trainer(fmt::format("strategy: {}, precision: {}", strategy, precision))).field("predivide") ==
          predivide);
}

TEST_CASE("Lightning's optimisers of bitsandbytes and torchao keep their own moments", "[import][lightning]") {
    const auto [optimizer, opt_state, kernel] = GENERATE(table<const char*, const char*, const char*>({
        {"torch.optim.AdamW", "B", "single"},
        {"bitsandbytes.optim.AdamW8bit", "int8", "fused"},
        {"bitsandbytes.optim.AdamW", "F", "fused"},
        {"torchao.optim.AdamW4bit", "int4", "fused"},
    }));
    CAPTURE(optimizer);
    const std::string config = trainer("precision: bf16-true");
    const Imported found(config.substr(0, config.size() - 1) + ", optimizer: {class_path: " + optimizer + "}}");
    CHECK(found.field("opt_state") == opt_state);
    CHECK(found.field("opt_kernel") == kernel);
}

TEST_CASE("configs of other frameworks with a section `trainer` are not configs of Lightning", "[import][lightning]") {
    for (const char* text : {"{trainer: {precision: bf16}, exp_manager: {}, model: {}}",
                             "{actor_rollout_ref: {}, trainer: {nnodes: 1, precision: bf16}}"}) {
        CAPTURE(text);
        CHECK(configs::find_framework("lightning")->recognises(files::read_yaml_config(text, "c.yaml").root) == 0);
    }
}

}  // namespace import_lightning_test
