// SPDX-License-Identifier: Apache-2.0
// Tests imports of the config file of `accelerate launch`: mixed precision on each device, the fp8 recipes that are
// executed, FSDP, and the DeepSpeed file that a config may name.
#include "tests/configs/import_case.hpp"

namespace import_accelerate_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

constexpr const char* v = "accelerate=1.15";
constexpr const char* v30 = "accelerate=0.30.1";

const std::vector<std::string_view> storage_fields{"store", "compute", "oplist", "grad", "reduce", "buffers"};

ImportResult accelerate(std::string_view text, const char* versions = v, const char* device = "h100") {
    return import_text(text, {.framework = "accelerate", .versions = versions, .device = device});
}

ImportResult with_deepspeed(std::string_view text, std::string_view section) {
    const ConfigFolder folder;
    folder.write("ds.json", section);
    return import_files({folder.write("launch.yaml", text)}, {.framework = "accelerate", .versions = ""});
}

}  // namespace

TEST_CASE("the sample config of Accelerate is imported as FSDP 2 with torchao's fp8", "[import][accelerate]") {
    const char* text =
        R"({compute_environment: LOCAL_MACHINE, distributed_type: FSDP, mixed_precision: fp8, num_processes: 8,
        fp8_config: {backend: AO, enable_fsdp_float8_all_gather: true, pad_inner_dim: true},
        fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false, fsdp_reshard_after_forward: true}})";
    const ImportResult result = import_text(text, {});
    CHECK(result.framework->name == "accelerate");
    CHECK_FALSE(result.refused());
    CHECK(fields_of(result, storage_fields) ==
          "store=F compute=ao_tensorwise oplist=torch-cuda grad=F reduce=B buffers=F");
    CHECK(field_of(result, "fp8").starts_with("ao_tensorwise pad_inner_dim=true all_gather=true filter=accelerate-ao"));
    std::string loading = text;
    loading.replace(loading.find("loading: false"), 14, "loading: true");
    CHECK(find_rule(import_text(loading, {}), "accelerate/torchao-low-memory-loading", 'E'));
    CHECK(import_text(loading, {}).refused());
}

TEST_CASE("Accelerate's mixed precision becomes a format that the device supports", "[import][accelerate]") {
    const auto [text, device, expected, scaler] = GENERATE(table<const char*, const char*, const char*, const char*>({
        {"{distributed_type: \"NO\", mixed_precision: \"no\"}", "h100",
         "store=F compute=F oplist=none grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: \"NO\"}", "h100", "store=F compute=F oplist=none grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: MULTI_GPU, mixed_precision: FP16}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"{distributed_type: MULTI_GPU, fp16: true}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"{distributed_type: MULTI_GPU, mixed_precision: bf16}", "h100",
         "store=F compute=B oplist=torch-cuda grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: \"NO\", mixed_precision: bf16, use_cpu: true}", "h100",
         "store=F compute=B oplist=torch-cpu grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: \"NO\", mixed_precision: fp16, use_cpu: true}", "h100",
         "store=F compute=F oplist=none grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: MULTI_CPU, mixed_precision: fp16}", "h100",
         "store=F compute=F oplist=none grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: MULTI_GPU, mixed_precision: fp8}", "a100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"{distributed_type: MULTI_GPU, mixed_precision: fp8}", "l40",
         "store=F compute=ao_tensorwise oplist=torch-cuda grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: FSDP, mixed_precision: bf16}", "h100",
         "store=F compute=B oplist=torch-cuda grad=F reduce=B buffers=B", "none"},
        {"{distributed_type: FSDP, mixed_precision: bf16, fsdp_config: {version: 2}}", "h100",
         "store=F compute=B oplist=torch-cuda grad=F reduce=B buffers=F", "none"},
        {"{distributed_type: FSDP, mixed_precision: fp16}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=H buffers=H",
         "torch-sharded init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 "
         "unscale_by_division=false"},
        {"{distributed_type: FSDP, mixed_precision: fp16, fsdp_config: {fsdp_version: 2}}", "h100",
         "store=F compute=H oplist=torch-cuda grad=F reduce=H buffers=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"{distributed_type: MULTI_GPU, mixed_precision: fp16, kwargs_handlers: {GradScalerKwargs: {init_scale: 1024, "
         "growth_interval: 100}}}",
         "h100", "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F",
         "torch init_scale=1024 growth_factor=2 backoff_factor=0.5 growth_interval=100 unscale_by_division=false"},
        {"{distributed_type: MULTI_GPU, mixed_precision: fp16, kwargs_handlers: {GradScalerKwargs: {enabled: false}}}",
         "h100", "store=F compute=H oplist=torch-cuda grad=F reduce=F buffers=F", "none"},
        {"{distributed_type: MULTI_GPU, mixed_precision: bf16, kwargs_handlers: {DistributedDataParallelKwargs: "
         "{comm_hook: bf16}}}",
         "h100", "store=F compute=B oplist=torch-cuda grad=F reduce=B buffers=F", "none"},
        {"{distributed_type: MEGATRON_LM, mixed_precision: bf16}", "h100",
         "store=B compute=B oplist=none grad=F reduce=F buffers=B", "none"},
    }));
    CAPTURE(text, device);
    const ImportResult result = accelerate(text, v, device);
    CHECK(fields_of(result, storage_fields) == expected);
    CHECK(field_of(result, "scaler") == scaler);
}

TEST_CASE("Transformer Engine uses the amax algorithm max even if Accelerate's config declares most_recent",
          "[import][accelerate]") {
    const ImportResult declared = accelerate(
        "{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, amax_compute_algo: most_recent, "
        "fp8_format: E4M3, margin: 2}}");
    CHECK(field_of(declared, "fp8")
              .starts_with("te_delayed format=E4M3 margin=2 history=1024 algorithm=max filter=accelerate-te"));
    CHECK(find_rule(declared, "accelerate/most-recent", 'C'));
    CHECK(field_of(declared, "compute") == "te_delayed");
    const ImportResult prefixed = accelerate(
        "{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {fp8_backend: TE, fp8_amax_history_len: 16, "
        "format: HYBRID, amax_compute_algo: max}}");
    CHECK(field_of(prefixed, "fp8").starts_with("te_delayed format=HYBRID margin=0 history=16"));
    CHECK_FALSE(find_rule(prefixed, "accelerate/most-recent"));
    CHECK_FALSE(find_rule(prefixed, "accelerate/unknown-key"));
}

TEST_CASE("each error and trap of Accelerate is reported if and only if it applies", "[import][accelerate]") {
    check_triggers(
        "accelerate",
        {
            {"{distributed_type: \"NO\", mixed_precision: fp32}", v, "h100", "accelerate/mixed-precision", 'E', true,
             "no such precision"},
            {"{distributed_type: \"NO\", mixed_precision: BF16}", v, "h100", "accelerate/mixed-precision", 'E', false,
             "case does not matter"},
            {"{distributed_type: \"NO\", mixed_precision: no}", v, "h100", "accelerate/bare-no", 'E', true,
             "a boolean since 0.34.2"},
            {"{distributed_type: \"NO\", mixed_precision: no}", "accelerate=0.34.2", "h100", "accelerate/bare-no", 'E',
             true, "0.34.2 itself"},
            {"{distributed_type: \"NO\", mixed_precision: no}", v30, "h100", "accelerate/bare-no", 'E', false,
             "0.30.1 accepts it"},
            {"{distributed_type: \"NO\", mixed_precision: no}", v30, "h100", "accelerate/bare-no", 'C', true,
             "and treats it as \"no\""},
            {"{distributed_type: \"NO\", mixed_precision: \"no\"}", v, "h100", "accelerate/bare-no", 'E', false,
             "quoted"},
            {"{distributed_type: NO, mixed_precision: \"no\"}", v, "h100", "accelerate/wrong-type", 'E', false,
             "an unquoted distributed_type is harmless"},
            {"{distributed_type: \"NO\", mixed_precision: fp16, use_cpu: true}", v, "h100", "accelerate/fp16-on-cpu",
             'W', true, "does nothing"},
            {"{distributed_type: \"NO\", mixed_precision: bf16, use_cpu: true}", v, "h100", "accelerate/fp16-on-cpu",
             'W', false, "bf16 has an effect"},
            {"{distributed_type: \"NO\", mixed_precision: fp8}", v, "a100", "accelerate/fp8-capability", 'W', true,
             "8.0"},
            {"{distributed_type: \"NO\", mixed_precision: fp8}", v, "l40", "accelerate/fp8-capability", 'W', false,
             "8.9"},
            {"{distributed_type: \"NO\", mixed_precision: bf16}", v, "t4", "accelerate/bf16-emulated", 'W', true,
             "emulated"},
            {"{distributed_type: \"NO\", mixed_precision: bf16}", v, "h100", "accelerate/bf16-emulated", 'W', false,
             "native"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, fp8_format: E3M4}}", v, "h100",
             "accelerate/fp8-format", 'E', true, "no such format"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, fp8_format: hybrid}}", v,
             "h100", "accelerate/fp8-format", 'E', false, "case does not matter"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, amax_compute_algo: mean}}", v,
             "h100", "accelerate/fp8-algorithm", 'E', true, "no such algorithm"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: MSAMP, opt_level: O4}}", v, "h100",
             "accelerate/fp8-level", 'E', true, "no such level"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: MSAMP}}", v, "h100",
             "accelerate/msamp", 'E', true, "MS-AMP is not emulated"},
            {"{distributed_type: FSDP, mixed_precision: fp8, fp8_config: {backend: MSAMP}}", v, "h100",
             "accelerate/msamp-fsdp", 'E', true, "not with FSDP"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: XYZ}}", v, "h100",
             "accelerate/fp8-backend", 'E', true, "no such backend"},
            {"{distributed_type: FSDP, mixed_precision: fp8, fp8_config: {backend: AO}}", v, "h100",
             "accelerate/torchao-low-memory-loading", 'E', true, "on by default"},
            {"{distributed_type: FSDP, mixed_precision: fp8, fp8_config: {backend: AO}, fsdp_config: "
             "{fsdp_cpu_ram_efficient_loading: true}}",
             v, "h100", "accelerate/torchao-low-memory-loading", 'E', true, "on"},
            {"{distributed_type: FSDP, mixed_precision: fp8, fp8_config: {backend: AO}, fsdp_config: "
             "{cpu_ram_efficient_loading: false}}",
             v, "h100", "accelerate/torchao-low-memory-loading", 'E', false, "off"},
            {"{distributed_type: MULTI_GPU, mixed_precision: fp8, fp8_config: {backend: AO}}", v, "h100",
             "accelerate/torchao-low-memory-loading", 'E', false, "no FSDP"},
            {"{distributed_type: FSDP, mixed_precision: fp8, fp8_config: {backend: TE}}", v, "h100",
             "accelerate/torchao-low-memory-loading", 'E', false, "no torchao"},
            {"distributed_type: \"NO\"\nmixed_precision: fp8\nfp8_config:\n  backend: TE\n  override_linear_precision: "
             "(false, false, false)\n",
             v, "h100", "accelerate/override-linear-precision", 'E', true, "a text"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, override_linear_precision: "
             "[false, false, false]}}",
             v, "h100", "accelerate/override-linear-precision", 'E', false, "a list"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, amax_history_length: 16}}", v,
             "h100", "accelerate/questionnaire-key", 'W', true, "the questionnaire's spelling"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, amax_history_length: 16}}", v,
             "h100", "accelerate/inert-key", 'I', true, "which changes nothing"},
            {"{distributed_type: \"NO\", mixed_precision: fp8, fp8_config: {backend: TE, amax_history_len: 16}}", v,
             "h100", "accelerate/questionnaire-key", 'W', false, "the field's spelling"},
            {"{distributed_type: MULTI_GPU, mixed_precision: bf16, fp8_config: {backend: TE}}", v, "h100",
             "accelerate/fp8-unread", 'I', true, "not fp8"},
            {"{distributed_type: MULTI_GPU, mixed_precision: bf16, kwargs_handlers: {TERecipeKwargs: {margin: 1}}}", v,
             "h100", "accelerate/recipe-without-fp8", 'E', true, "a recipe without fp8"},
            {"{distributed_type: FSDP, mixed_precision: bf16, kwargs_handlers: {AORecipeKwargs: {pad_inner_dim: "
             "true}}}",
             v, "h100", "accelerate/recipe-without-fp8", 'E', false, "not under FSDP"},
            {"{distributed_type: MULTI_GPU, mixed_precision: fp8, kwargs_handlers: {FP8RecipeKwargs: {backend: TE}}}",
             v, "h100", "accelerate/recipe-deprecated", 'W', true, "deprecated"},
            {"{distributed_type: FSDP, mixed_precision: bf16}", v, "h100", "accelerate/fsdp-low-reduce", 'W', true,
             "reduced in bf16"},
            {"{distributed_type: FSDP, mixed_precision: \"no\"}", v, "h100", "accelerate/fsdp-low-reduce", 'W', false,
             "fp32"},
            {"{distributed_type: FSDP, mixed_precision: bf16, fsdp_config: {fsdp_sync_module_states: false}}", v,
             "h100", "accelerate/sync-module-states", 'E', true, "random weights"},
            {"{distributed_type: \"NO\", fsdp_config: {fsdp_sync_module_states: false}}", v, "h100",
             "accelerate/sync-module-states", 'E', false, "no FSDP"},
            {"{distributed_type: \"NO\", mixed_precision: bf16, downcast_bf16: 'no'}", v, "h100",
             "accelerate/downcast-unread", 'I', true, "not on a TPU"},
            {"{distributed_type: XLA, mixed_precision: bf16, downcast_bf16: 'no'}", v, "tpu",
             "accelerate/downcast-unread", 'I', false, "on a TPU"},
            {"{mixed_precision: bf16, num_processes: 2}", v, "h100", "accelerate/launcher", 'N', true,
             "no distributed_type"},
            {"{distributed_type: MULTI_GPU, mixed_precision: bf16}", v, "h100", "accelerate/launcher", 'N', true,
             "no num_processes"},
            {"{distributed_type: MULTI_GPU, mixed_precision: bf16, num_processes: 2}", v, "h100", "accelerate/launcher",
             'N', false, "both"},
            {"{distributed_type: \"NO\", mixed_precision: bf16, dynamo_config: {dynamo_backend: INDUCTOR}}", v, "h100",
             "accelerate/torch-compile", 'W', true, "compiled"},
            {"{distributed_type: \"NO\", mixed_precision: bf16, dynamo_backend: 'NO'}", v, "h100",
             "accelerate/torch-compile", 'W', false, "not compiled"},
            {"{distributed_type: \"NO\", mixed_precison: bf16}", v, "h100", "accelerate/unknown-key", 'U', true,
             "a misspelt key"},
            {"{distributed_type: DEEPSPEED, deepspeed_config: {deepspeed_config_file: nowhere.json}}", v, "h100",
             "accelerate/missing-file", 'E', true, "a missing file"},
            {"{distributed_type: \"NO\", deepspeed_config: {deepspeed_config_file: nowhere.json}}", v, "h100",
             "accelerate/missing-file", 'E', false, "the file is not read"},
        });
}

TEST_CASE("an unknown key is refused at the top level of Accelerate's file, but not in its maps",
          "[import][accelerate]") {
    CHECK(accelerate("{distributed_type: \"NO\", mixed_precison: bf16}").refused());
    const ImportResult inner =
        accelerate("{distributed_type: FSDP, num_processes: 2, fsdp_config: {fsdp_sharding: FULL}}");
    REQUIRE(find_rule(inner, "accelerate/unknown-key", 'U'));
    CHECK_FALSE(inner.refused());
}

TEST_CASE("Accelerate makes a DeepSpeed config from its own keys", "[import][accelerate]") {
    const ImportResult fp16 = accelerate(
        "{distributed_type: DEEPSPEED, mixed_precision: fp16, num_processes: 2, deepspeed_config: {zero_stage: 3, "
        "gradient_clipping: 0.5}}");
    CHECK_FALSE(fp16.refused());
    CHECK(fields_of(fp16, {"store", "compute", "master"}) == "store=H compute=H master=F");
    CHECK(field_of(fp16, "scaler").starts_with("ds-zero init_scale=65536 growth_interval=1000 hysteresis=2"));
    CHECK(field_of(fp16, "clip") == "deepspeed max=0.5");
    // The fp16 section that Accelerate makes has no keys for the dynamic loss scale. DeepSpeed 0.16.5 then starts with
    // a scale of 2^32 and a hysteresis of 1.
    const ImportResult trap = accelerate("{distributed_type: DEEPSPEED, mixed_precision: fp16, num_processes: 2}",
                                         "accelerate=1.15,deepspeed=0.16.5");
    CHECK(field_of(trap, "scaler").starts_with("ds-zero init_scale=4294967296 growth_interval=1000 hysteresis=1"));
    CHECK(find_rule(trap, "deepspeed/initial-scale-trap", 'W'));
    const ImportResult fp8 =
        accelerate("{distributed_type: DEEPSPEED, mixed_precision: fp8, num_processes: 2, fp8_config: {backend: TE}}");
    CHECK(fields_of(fp8, {"store", "compute"}) == "store=B compute=te_delayed");
    CHECK(find_rule(fp8, "accelerate/te-section-unread", 'W'));
    const ImportResult old =
        accelerate("{distributed_type: DEEPSPEED, mixed_precision: fp8, num_processes: 2}", v, "a100");
    CHECK(fields_of(old, {"store", "compute"}) == "store=H compute=H");  // fp8 becomes fp16 on this device
}

TEST_CASE("the release of Accelerate decides the format that fp8 with DeepSpeed becomes", "[import][accelerate]") {
    struct Case {
        const char *version, *device, *compute, *errors;
    };
    // Each release from 1.3.0 to 1.15.0 was read, and those on both sides of 0.34.0.
    const Case cases[] = {
        {"0.33.0", "a100", "F", ""}, {"0.33.0", "h100", "F", ""},
        {"0.34.0", "a100", "B", ""}, {"0.34.0", "h100", "B", ""},
        {"1.3.0", "a100", "B", ""},  {"1.7.0", "a100", "te_delayed", " accelerate/fp8-device-untested"},
        {"1.8.0", "a100", "H", ""},  {"1.15.0", "a100", "H", ""},
    };
    for (const Case& one : cases) {
        const ImportResult result = accelerate(
            "{distributed_type: DEEPSPEED, mixed_precision: fp8, num_processes: 2, fp8_config: {backend: TE}, "
            "deepspeed_config: {zero_stage: 2}}",
            fmt::format("accelerate={}", one.version).c_str(), one.device);
        std::string errors;
        for (const Finding& finding : result.findings) {
            if (finding.code == FindingCode::error) errors += " " + finding.rule;
            if (finding.rule != "accelerate/fp8-not-reached") continue;
            CHECK(finding.message.ends_with(*one.compute == 'F' ? "in fp32" : "in bf16"));
        }
        CAPTURE(one.version, one.device);
        CHECK(field_of(result, "compute") == one.compute);
        CHECK(errors == one.errors);
    }
}

TEST_CASE("Accelerate replaces \"auto\" in DeepSpeed's file, and refuses a file that contradicts its keys",
          "[import][accelerate]") {
    const char* automatic =
        R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}, "gradient_clipping": "auto"})";
    const ImportResult none = with_deepspeed(
        "{distributed_type: DEEPSPEED, num_processes: 2, deepspeed_config: {deepspeed_config_file: ds.json}}",
        automatic);
    CHECK_FALSE(none.refused());
    CHECK(field_of(none, "compute") == "F");
    CHECK_FALSE(find_rule(none, "deepspeed/auto"));
    const ImportResult both = with_deepspeed(
        "{distributed_type: DEEPSPEED, num_processes: 2, mixed_precision: bf16, deepspeed_config: "
        "{deepspeed_config_file: ds.json}}",
        automatic);
    CHECK(field_of(both, "compute") == "B");
    CHECK(field_of(both, "clip") == "deepspeed max=1");
    // If the config names a DeepSpeed file, that file must set the precision, and the key mixed_precision is an error.
    CHECK(find_rule(both, "accelerate/deepspeed-file-and-keys", 'E'));
    const char* bf16 = R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})";
    CHECK(find_rule(
        with_deepspeed(
            "{distributed_type: DEEPSPEED, mixed_precision: fp16, deepspeed_config: {deepspeed_config_file: ds.json}}",
            bf16),
        "accelerate/deepspeed-other-dtype", 'E'));
    CHECK_FALSE(find_rule(
        with_deepspeed(
            "{distributed_type: DEEPSPEED, mixed_precision: bf16, deepspeed_config: {deepspeed_config_file: ds.json}}",
            bf16),
        "accelerate/deepspeed-other-dtype"));
    CHECK(find_rule(with_deepspeed("{distributed_type: DEEPSPEED, mixed_precision: \"no\", deepspeed_config: "
                                   "{deepspeed_config_file: ds.json}}",
                                   bf16),
                    "accelerate/deepspeed-decides", 'C'));
    CHECK(find_rule(with_deepspeed("{distributed_type: DEEPSPEED, deepspeed_config: {deepspeed_config_file: ds.json}}",
                                   R"({"bf16": {"enabled": true}})"),
                    "accelerate/deepspeed-without-zero", 'E'));
}

TEST_CASE("the release of Accelerate decides whether fp8 of the launcher's file is used, and with which backend",
          "[import][accelerate]") {
    struct Case {
        const char *distributed, *backend, *version, *fp8, *rule, *why;
    };
    // The releases on both sides of each change were read.
    const Case cases[] = {
        {"MULTI_GPU", "TE", "0.33.0", "none", "E accelerate/fp8-without-recipe", "no recipe is made"},
        {"MULTI_GPU", "TE", "0.34.0", "te_delayed", "", "FP8RecipeKwargs reads the environment"},
        {"MULTI_GPU", "TE", "1.3.0", "te_delayed", "", "as before"},
        {"MULTI_GPU", "TE", "1.4.0", "none", "W accelerate/fp8-not-reached", "only the constructor's argument counts"},
        {"MULTI_GPU", "TE", "1.7.0", "none", "W accelerate/fp8-not-reached", "as before"},
        {"MULTI_GPU", "TE", "1.8.0", "te_delayed", "W accelerate/fp8-backend-unread", "the state counts"},
        {"MULTI_GPU", "AO", "1.8.1", "ao_tensorwise",
         "E accelerate/fp8-torchao-without-fsdp, W accelerate/fp8-backend-unread", "there is no FSDP plugin"},
        {"MULTI_GPU", "AO", "1.9.0", "ao_tensorwise", "", "ACCELERATE_FP8_BACKEND is read"},
        {"MULTI_GPU", "AO", "1.3.0", "ao_tensorwise", "E accelerate/fp8-backend", "torchao is a backend since 1.4"},
        {"MULTI_GPU", "", "1.3.0", "te_delayed", "N accelerate/fp8-backend-assumed", "without MS-AMP"},
        {"MULTI_GPU", "", "1.15.0", "ao_tensorwise", "N accelerate/fp8-backend-assumed", "torchao is first"},
        {"DEEPSPEED", "TE", "0.33.0", "none", "W accelerate/fp8-not-reached", "DeepSpeed computes in fp32"},
        {"DEEPSPEED", "TE", "1.3.0", "none", "W accelerate/fp8-not-reached", "as before"},
        {"DEEPSPEED", "TE", "1.4.0", "te_delayed", "W accelerate/fp8-backend-unread", "the environment is the default"},
        {"DEEPSPEED", "TE", "1.7.0", "te_delayed", "W accelerate/fp8-backend-unread", "as before"},
        {"DEEPSPEED", "TE", "1.8.0", "none", "W accelerate/fp8-not-reached", "the state says bf16"},
        {"DEEPSPEED", "TE", "1.10.1", "none", "W accelerate/fp8-not-reached", "as before"},
        {"DEEPSPEED", "TE", "1.11.0", "te_delayed", "", "the state says fp8"},
    };
    const std::vector<std::string> rules{"fp8-without-recipe",       "fp8-not-reached", "fp8-backend-unread",
                                         "fp8-torchao-without-fsdp", "fp8-backend",     "fp8-backend-assumed"};
    for (const Case& one : cases) {
        const std::string backend =
            *one.backend == '\0' ? "" : fmt::format("fp8_config: {{backend: {}}}\n", one.backend);
        const std::string text =
            fmt::format("distributed_type: {}\nnum_processes: 2\nmixed_precision: fp8\n{}", one.distributed, backend);
        const std::string version = fmt::format("accelerate={}", one.version);
        const ImportResult result = accelerate(text, version.c_str());
        std::string found;
        for (const Finding& finding : result.findings) {
            for (const std::string& rule : rules) {
                if (finding.rule == "accelerate/" + rule)
                    found += fmt::format("{}{} {}", found.empty() ? "" : ", ", static_cast<char>(finding.code),
                                         finding.rule);
            }
        }
        CAPTURE(text, one.version, one.why);
        CHECK(fields_of(result, {"fp8"}) == fmt::format("fp8={}", one.fp8));
        CHECK(found == one.rule);
    }
    // A program that passes a recipe to the Accelerator does not depend on the file.
    CHECK(fields_of(accelerate("distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: fp8\nfp8_config: "
                               "{backend: TE}\nkwargs_handlers: {TERecipeKwargs: {}}",
                               "accelerate=1.6.0"),
                    {"fp8"}) == "fp8=te_delayed");
}

TEST_CASE("before 1.13, Accelerate's fp8 uses torchao's defaults for padding and the all-gather",
          "[import][accelerate]") {
    const char* text =
        "distributed_type: FSDP\nnum_processes: 2\nmixed_precision: fp8\nfp8_config: {backend: AO}\n"
        "fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false}";
    CHECK(field_of(accelerate(text, "accelerate=1.12.0"), "fp8") ==
          "ao_tensorwise pad_inner_dim=false all_gather=false filter=accelerate-ao");
    CHECK(field_of(accelerate(text, "accelerate=1.13.0"), "fp8") ==
          "ao_tensorwise pad_inner_dim=true all_gather=true filter=accelerate-ao");
}

TEST_CASE("the launcher reads --mixed_precision in capital letters", "[import][accelerate]") {
    const ConfigFolder folder;
    for (const char* precision : {"bf16", "BF16"}) {
        CAPTURE(precision);
        const std::string file = folder.write(
            "run.sh",
            fmt::format("accelerate launch --mixed_precision {} train.py --output_dir o --learning_rate 1e-4\n",
                        precision));
        const ImportResult result = import_files({file}, {.framework = "transformers", .versions = ""});
        CHECK(field_of(result, "compute") == "B");
    }
}

}  // namespace import_accelerate_test
