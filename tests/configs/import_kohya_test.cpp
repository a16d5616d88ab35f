// SPDX-License-Identifier: Apache-2.0
// Tests imports of configs of kohya's sd-scripts: networks and whole models, full half precision, optimisers, sections
// and presets of the graphical interface. The configs are written in YAML, which gives the same tree as TOML.
#include "tests/configs/imported.hpp"

namespace import_kohya_test {

using namespace macheps;
using namespace macheps::test;

namespace {

std::string network(std::string_view rest) {
    return fmt::format("{{pretrained_model_name_or_path: m, network_module: networks.lora, {}}}", rest);
}
std::string whole(std::string_view rest) {
    return fmt::format("{{pretrained_model_name_or_path: m, max_train_steps: 10, {}}}", rest);
}

}  // namespace

TEST_CASE("kohya keeps frozen parts in the format of mixed precision, and trained parts in fp32 unless full_* is on",
          "[import][kohya]") {
    const auto [text, expected] = GENERATE(table<std::string, const char*>({
        {network("mixed_precision: fp16"), "store=H compute=H adapter=F grad=F opt_state=F scaler=torch"},
        {network("mixed_precision: bf16, full_bf16: true"),
         "store=B compute=B adapter=B grad=B opt_state=B scaler=none"},
        {network("mixed_precision: bf16, fp8_base: true"),
         "store=fp8 compute=B adapter=F grad=F opt_state=F scaler=none"},
        {network("mixed_precision: bf16, fp8_scaled: true"),
         "store=fp8 compute=B adapter=F grad=F opt_state=F scaler=none"},
        {network("learning_rate: 1.0e-4"), "store=F compute=F adapter=F grad=F opt_state=F scaler=none"},
        {whole("mixed_precision: fp16"), "store=F compute=H adapter=none grad=F opt_state=F scaler=torch"},
        {whole("mixed_precision: fp16, full_fp16: true"),
         "store=H compute=H adapter=none grad=H opt_state=H scaler=torch"},
        {whole("mixed_precision: bf16, full_bf16: true, optimizer_type: PagedAdamW32bit"),
         "store=B compute=B adapter=none grad=B opt_state=F scaler=none"},
        {whole("mixed_precision: bf16, optimizer_type: AdamW8bit"),
         "store=F compute=B adapter=none grad=F opt_state=int8 scaler=none"},
        {whole("mixed_precision: bf16, use_8bit_adam: true"),
         "store=F compute=B adapter=none grad=F opt_state=int8 scaler=none"},
    }));
    CAPTURE(text);
    const Imported found(text);
    CHECK(found.result().framework->name == "kohya");
    CHECK(fields_of(found.result(), {"store", "compute", "adapter", "grad", "opt_state", "scaler"}) == expected);
    CHECK(found.part("clip", "max") == "1");
    CHECK_FALSE(found.result().refused());
    CHECK(found.has("N kohya/diffusion-model"));
}

TEST_CASE("kohya refuses, warns about and explains these settings", "[import][kohya]") {
    const std::string half = whole("mixed_precision: fp16, full_fp16: true"), half_alone = whole("full_fp16: true"),
                      brain_alone = whole("mixed_precision: fp16, full_bf16: true"),
                      brain = whole("mixed_precision: bf16, full_bf16: true"),
                      low_eps = whole("mixed_precision: fp16, full_fp16: true, optimizer_args: ['eps=1e-7']"),
                      wide_eps = whole("mixed_precision: fp16, full_fp16: true, optimizer_args: ['eps=1e-4']"),
                      least_eps = whole("mixed_precision: fp16, full_fp16: true, optimizer_args: ['eps=4e-8']"),
                      small_eps = whole("mixed_precision: fp16, full_fp16: true, optimizer_args: ['eps=1e-9']"),
                      eight = whole("mixed_precision: fp16, full_fp16: true, optimizer_type: AdamW8bit"),
                      lion = whole("mixed_precision: fp16, full_fp16: true, use_lion_optimizer: true"),
                      frozen = network("mixed_precision: fp16"), mixed = whole("mixed_precision: fp16"),
                      fp8_alone = network("fp8_base: true"), unet_alone = network("fp8_base_unet: true"),
                      scaled_alone = network("fp8_scaled: true"),
                      scaled_whole = whole("mixed_precision: fp16, fp8_scaled: true"),
                      fp8_whole = whole("mixed_precision: fp16, fp8_base: true"),
                      both = whole("mixed_precision: fp16, full_fp16: true, full_bf16: true"),
                      sdxl = "{pretrained_model_name_or_path: sdxl-base, network_module: n, mixed_precision: fp16}",
                      sdxl_wide =
                          "{pretrained_model_name_or_path: sdxl-base, network_module: n, mixed_precision: fp16, "
                          "no_half_vae: true}",
                      sdxl_brain =
                          "{pretrained_model_name_or_path: sdxl-base, network_module: n, mixed_precision: bf16}",
                      deepspeed = whole("deepspeed: true, zero_stage: 2");
    check_triggers("kohya",
                   {{half.c_str(), "", "a100", "kohya/no-master", 'W', true, "fp16 weights"},
                    {half.c_str(), "", "a100", "kohya/eps-is-zero", 'W', true, "1e-8 is 0 in fp16"},
                    {half.c_str(), "", "a100", "kohya/low-gradients-under-scaler", 'E', false, "a patched scaler"},
                    {half.c_str(), "", "a100", "kohya/buffers-cast", 'N', true, "the model is cast"},
                    {mixed.c_str(), "", "a100", "kohya/buffers-cast", 'N', false, "the model is not cast"},
                    {frozen.c_str(), "", "a100", "kohya/buffers-cast", 'N', true, "the frozen model is cast"},
                    {lion.c_str(), "", "a100", "kohya/eps-is-zero", 'W', false, "Lion has no eps"},
                    {half.c_str(), "", "a100", "kohya/patched-scaler", 'N', true, "takes fp16 gradients"},
                    {half.c_str(), "", "a100", "kohya/full-fp16-without-mixed", 'E', false, "mixed fp16"},
                    {low_eps.c_str(), "", "a100", "kohya/eps-is-zero", 'W', false, "1e-7 is a number of fp16"},
                    {low_eps.c_str(), "", "a100", "kohya/eps-is-small", 'W', true, "1e-7 allows large updates"},
                    {wide_eps.c_str(), "", "a100", "kohya/eps-is-small", 'W', false, "1e-4 limits updates"},
                    {least_eps.c_str(), "", "a100", "kohya/eps-is-zero", 'W', false, "4e-8 rounds to 2^-24"},
                    {small_eps.c_str(), "", "a100", "kohya/eps-is-zero", 'W', true, "1e-9 is 0 in fp16"},
                    {eight.c_str(), "", "a100", "kohya/eps-is-zero", 'W', false, "bitsandbytes computes in fp32"},
                    {mixed.c_str(), "", "a100", "kohya/eps-is-zero", 'W', false, "fp32 weights"},
                    {mixed.c_str(), "", "a100", "kohya/no-master", 'W', false, "fp32 weights"},
                    {half_alone.c_str(), "", "a100", "kohya/full-fp16-without-mixed", 'E', true, "an assert"},
                    {brain_alone.c_str(), "", "a100", "kohya/full-bf16-without-mixed", 'E', true, "an assert"},
                    {brain.c_str(), "", "a100", "kohya/full-bf16-scripts", 'N', true, "two scripts do not read it"},
                    {fp8_alone.c_str(), "", "a100", "kohya/fp8-base-without-mixed", 'E', true, "an assert"},
                    {unet_alone.c_str(), "", "a100", "kohya/fp8-base-without-mixed", 'E', true, "the same assert"},
                    {scaled_alone.c_str(), "", "a100", "kohya/fp8-base-without-mixed", 'E', false, "no assert"},
                    {fp8_whole.c_str(), "", "a100", "kohya/fp8-base-unread", 'I', true, "no network"},
                    {both.c_str(), "", "a100", "kohya/full-fp16-and-bf16", 'C', true, "full_fp16 is tested first"},
                    {both.c_str(), "", "a100", "kohya/full-bf16-without-mixed", 'E', false, "not reached"},
                    {sdxl.c_str(), "", "a100", "kohya/half-vae", 'W', true, "SDXL's VAE overflows"},
                    {sdxl_wide.c_str(), "", "a100", "kohya/half-vae", 'W', false, "fp32"},
                    {sdxl_brain.c_str(), "", "a100", "kohya/half-vae", 'W', false, "bf16 does not overflow"},
                    {mixed.c_str(), "", "a100", "kohya/half-vae", 'W', false, "no sign of SDXL"},
                    {deepspeed.c_str(), "", "a100", "kohya/deepspeed-unread", 'W', true, "not read"},
                    {mixed.c_str(), "", "gtx1660", "kohya/nan-convolutions", 'W', true, "a GPU of the GTX 16 series"},
                    {mixed.c_str(), "", "gtx1650", "kohya/nan-convolutions", 'W', true, "the same profile"},
                    {mixed.c_str(), "", "t4", "kohya/nan-convolutions", 'W', false, "the same capability"},
                    {brain.c_str(), "", "gtx1660", "kohya/nan-convolutions", 'W', false, "not in fp16"},
                    {brain.c_str(), "", "v100", "kohya/bf16-emulated", 'W', true, "no bf16 units"}});
    const auto source = [](const std::string& text) {
        const Imported found(text);
        return found.result().resolved.find("opt_state")->from;
    };
    CHECK(source(whole("mixed_precision: fp16, use_8bit_adam: true")).ends_with("use_8bit_adam"));
    CHECK(source(whole("mixed_precision: fp16, optimizer_type: AdamW8bit")).ends_with("optimizer_type"));
    CHECK(Imported(eight).field("optimizer") == "adamw");
    CHECK(Imported(lion).field("optimizer") == "lion");
    CHECK(Imported(small_eps).part("optimizer", "eps") == "1e-09");
    CHECK(Imported(brain_alone).field("grad") == "F");
    CHECK(find_rule(Imported(brain).result(), "kohya/no-master")->key == "full_bf16");
    CHECK(find_rule(Imported(half).result(), "kohya/no-master")->key == "full_fp16");
    const Imported unet(unet_alone), scaled(scaled_whole);
    const configs::Finding* asserts = find_rule(unet.result(), "kohya/fp8-base-without-mixed");
    CHECK(asserts->key == "fp8_base_unet");
    CHECK(asserts->message.starts_with("fp8_base_unet needs mixed precision"));
    CHECK(find_rule(scaled.result(), "kohya/fp8-base-unread")->key == "fp8_scaled");
}

TEST_CASE("for FLUX, kohya reports fp16 itself and neither the VAE of SDXL nor rotary buffers", "[import][kohya]") {
    const ConfigFolder folder;
    const std::string command =
        "accelerate launch flux_train_network.py --pretrained_model_name_or_path /in/flux1-dev.safetensors "
        "--clip_l c --t5xxl t --ae a --cache_text_encoder_outputs --network_module networks.lora_flux "
        "--mixed_precision fp16 --fp8_base --optimizer_type adafactor "
        "--optimizer_args \"relative_step=False\" \"scale_parameter=False\" \"warmup_init=False\"\n";
    configs::ImportOptions options;
    options.device = "p100";
    const std::string files[] = {folder.write("train.sh", command)};
    const configs::ImportResult result = configs::import_config(files, options);
    const configs::Finding* range = find_rule(result, "kohya/bf16-checkpoint-in-fp16", 'W');
    REQUIRE(range != nullptr);
    CHECK(range->instead.starts_with("fp32, because p100 has no bf16"));
    for (const char* rule : {"kohya/half-vae", "kohya/low-buffers", "kohya/unknown-precision-key", "kohya/unknown-key"})
        CHECK(find_rule(result, rule) == nullptr);
    CHECK(fields_of(result, {"store", "norm", "embed", "compute"}) == "store=fp8 norm=fp8 embed=H compute=H");
}

TEST_CASE("fp8_base of kohya casts all frozen weights, and fp8_scaled only those of the blocks", "[import][kohya]") {
    const std::vector<std::string_view> fields{"store", "norm", "embed", "lm_head", "eval"};
    const Imported base(network("mixed_precision: fp16, fp8_base: true"), {.checkpoint = "bf16"}),
        scaled(network("mixed_precision: fp16, fp8_base: true, fp8_scaled: true"), {.checkpoint = "bf16"});
    CHECK(fields_of(base.result(), fields) == "store=fp8 norm=fp8 embed=H lm_head=fp8 eval=fp8");
    CHECK(fields_of(scaled.result(), fields) == "store=fp8 norm=B embed=B lm_head=B eval=fp8");
}

TEST_CASE("kohya reads Adam's eps from a list or a text of optimizer_args", "[import][kohya]") {
    const auto has_zero_eps = [](const char* arguments) {
        const Imported config(
            whole(fmt::format("mixed_precision: fp16, full_fp16: true, optimizer_args: {}", arguments)));
        return config.has("W kohya/eps-is-zero");
    };
    CHECK_FALSE(has_zero_eps("['weight_decay=0.1', 'eps=1e-4']"));
    CHECK_FALSE(has_zero_eps("'eps=1e-4'"));
    CHECK_FALSE(has_zero_eps("'weight_decay=0.1 eps=1e-4 amsgrad=True'"));
    CHECK(has_zero_eps("'weight_decay=0.1 eps=1e-9'"));
    CHECK(has_zero_eps("'d_eps=1e-4'"));
}

TEST_CASE("kohya's configs can be imported, but not trained", "[import][kohya]") {
    const ConfigFolder folder;
    const std::vector<std::string> files{folder.write("kohya.yaml", whole("mixed_precision: fp16"))};
    configs::ImportOptions options;
    CHECK_FALSE(configs::import_config(files, options).refused());
    options.for_training = true;
    CHECK(configs::import_config(files, options).refused());
}

TEST_CASE("kohya reads sections as if their keys were at the root, and presets by their own names", "[import][kohya]") {
    const Imported config("training: {mixed_precision: fp16, full_fp16: true}\nmodel: {network_module: n}\n");
    CHECK(config.result().framework->name == "kohya");
    CHECK(config.field("adapter") == "H");
    const Imported preset(
        R"({"LoRA_type": "Standard", "mixed_precision": "fp16", "optimizer": "AdamW8bit", "sdxl": true, "clip_skip": 1,
            "sdxl_no_half_vae": true, "epoch": 1, "num_cpu_threads_per_process": 2})");
    CHECK(preset.result().framework->name == "kohya");
    CHECK(fields_of(preset.result(), {"store", "adapter", "opt_state"}) == "store=H adapter=F opt_state=int8");
    CHECK_FALSE(preset.has("W kohya/half-vae"));
    CHECK(preset.findings("U").empty());
}

TEST_CASE("kohya: options in a file that was not given are an error, and a network of another package is a warning",
          "[import][kohya]") {
    const ConfigFolder folder;
    const std::string script = folder.write(
        "run.sh",
        "accelerate launch train_network.py --config_file options --network_module lycoris.kohya --learning_rate 1e-5 "
        "--pretrained_model_name_or_path x.safetensors\n");
    const std::string options =
        folder.write("options.toml", "mixed_precision = 'fp16'\nnetwork_module = 'networks.lora'\n");
    const configs::ImportResult alone = import_files({script}, {.framework = "kohya"});
    REQUIRE(find_rule(alone, "kohya/options-file-unread", 'E') != nullptr);
    CHECK(find_rule(alone, "kohya/network-unread", 'W') != nullptr);
    const configs::ImportResult both = import_files({options, script}, {.framework = "kohya"});
    CHECK(find_rule(both, "kohya/options-file-unread") == nullptr);
    CHECK(field_of(both, "compute") == "H");
    // Options of the command line win.
    CHECK(find_rule(both, "kohya/network-unread", 'W') != nullptr);
    const configs::ImportResult own = import_files({options}, {.framework = "kohya"});
    CHECK(find_rule(own, "kohya/network-unread") == nullptr);
}

}  // namespace import_kohya_test
