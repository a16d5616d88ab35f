// SPDX-License-Identifier: Apache-2.0
// Tests imports of TrainingArguments: each error that Transformers 4.x and 5.x raise, each silent decision, and the
// values that replace "auto" in DeepSpeed's section.
#include "tests/configs/import_case.hpp"

namespace import_transformers_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

const std::vector<std::string_view> storage_fields{"store", "compute", "oplist",    "master", "grad",
                                                   "accum", "reduce",  "opt_state", "eval"};

constexpr const char* v4 = "transformers=4.41.2";
constexpr const char* v457 = "transformers=4.57";
constexpr const char* v5 = "transformers=5.14.1";

ImportResult arguments(std::string_view text, const char* versions = v5, const char* device = "h100",
                       const char* checkpoint = "fp32") {
    return import_text(text,
                       {.framework = "transformers", .versions = versions, .device = device, .checkpoint = checkpoint});
}

/// Imports arguments that name a DeepSpeed file in the same folder.
ImportResult with_deepspeed(std::string_view text, std::string_view section, const char* versions = v5) {
    const ConfigFolder folder;
    folder.write("ds.json", section);
    return import_files({folder.write("args.yaml", text)}, {.framework = "transformers", .versions = versions});
}

}  // namespace

TEST_CASE(
    "the sample config of TrainingArguments has bf16 autocast, fp32 evaluation and, in transformers 5, fused AdamW",
    "[import][transformers]") {
    const char* text =
        "{bf16: true, fp16: false, tf32: true, bf16_full_eval: false, max_grad_norm: 1.0, gradient_accumulation_steps: "
        "8}";
    const ImportResult now = import_text(text, {});
    CHECK(now.framework->name == "transformers");
    CHECK_FALSE(now.refused());
    CHECK(fields_of(now, storage_fields) ==
          "store=F compute=B oplist=torch-cuda master=none grad=F accum=F reduce=F opt_state=F eval=F");
    CHECK(field_of(now, "opt_kernel") == "fused");
    CHECK(field_of(now, "clip") == "torch max=1");
    CHECK(field_of(now, "scaler") == "none");
    const ImportResult then = arguments(text, v4);
    CHECK(field_of(then, "opt_kernel") == "single");
    CHECK(field_of(arguments(text, "transformers=5.14.1,torch=2.7"), "opt_kernel") == "single");
}

TEST_CASE("TrainingArguments decide what autocast does", "[import][transformers]") {
    const auto [text, versions, device, checkpoint, expected,
                scaler] = GENERATE(table<const char*, const char*, const char*, const char*, const char*, const char*>({
        {"learning_rate: 1.0e-5", v5, "h100", "fp32",
         "store=F compute=F oplist=none master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"fp16: true", v5, "h100", "fp32",
         "store=F compute=H oplist=torch-cuda master=none grad=F accum=F reduce=F opt_state=F eval=F",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
        {"fp16: true", v5, "cpu", "fp32",
         "store=F compute=F oplist=none master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"bf16: true", v4, "cpu", "fp32",
         "store=F compute=B oplist=torch-cpu master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"bf16: true", v5, "h100", "bf16",
         "store=B compute=B oplist=torch-cuda master=none grad=B accum=B reduce=B opt_state=B eval=B", "none"},
        {"bf16: true", v4, "h100", "bf16",
         "store=F compute=B oplist=torch-cuda master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"output_dir: x", v5, "h100", "bf16",
         "store=B compute=B oplist=none master=none grad=B accum=B reduce=B opt_state=B eval=B", "none"},
        {"{tf32: true}", v5, "a100", "fp32",
         "store=F compute=T oplist=none master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"{torch_compile: true}", v5, "a100", "fp32",
         "store=F compute=T oplist=none master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"{torch_compile: true, tf32: false}", v5, "a100", "fp32",
         "store=F compute=F oplist=none master=none grad=F accum=F reduce=F opt_state=F eval=F", "none"},
        {"{bf16: true, bf16_full_eval: true}", v5, "h100", "fp32",
         "store=F compute=B oplist=torch-cuda master=none grad=F accum=F reduce=F opt_state=F eval=B", "none"},
        {"{fp16: true, half_precision_backend: apex, fp16_opt_level: O2}", v4, "h100", "fp32",
         "store=H compute=H oplist=none master=F grad=H accum=F reduce=H opt_state=F eval=H",
         "apex init_scale=65536 growth_interval=2000 min_scale=0 max_scale=16777216"},
        {"{fp16: true, half_precision_backend: apex}", v4, "h100", "fp32",
         "store=F compute=H oplist=apex-o1 master=none grad=F accum=F reduce=F opt_state=F eval=F",
         "apex init_scale=65536 growth_interval=2000 min_scale=0 max_scale=16777216"},
        {"{bf16: true, fsdp: full_shard, fsdp_config: {version: 2}}", v5, "h100", "fp32",
         "store=F compute=B oplist=torch-cuda master=none grad=F accum=F reduce=B opt_state=F eval=B", "none"},
        {"{fp16: true, fsdp: full_shard auto_wrap}", v4, "h100", "fp32",
         "store=F compute=H oplist=torch-cuda master=none grad=F accum=F reduce=H opt_state=F eval=H",
         "torch-sharded init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 "
         "unscale_by_division=false"},
        {"{fp16: true, fsdp: full_shard, fsdp_config: {version: 2}}", v5, "h100", "fp32",
         "store=F compute=H oplist=torch-cuda master=none grad=F accum=F reduce=H opt_state=F eval=H",
         "torch init_scale=65536 growth_factor=2 backoff_factor=0.5 growth_interval=2000 unscale_by_division=false"},
    }));
    CAPTURE(text, versions, device, checkpoint);
    const ImportResult result = arguments(text, versions, device, checkpoint);
    CHECK(fields_of(result, storage_fields) == expected);
    CHECK(field_of(result, "scaler") == scaler);
}

TEST_CASE("each error and trap of TrainingArguments is reported in the versions that have it",
          "[import][transformers]") {
    check_triggers(
        "transformers",
        {
            {"{fp16: true, bf16: true}", v4, "h100", "transformers/fp16-and-bf16", 'E', true, "4.x"},
            {"{fp16: true, bf16: true}", v5, "h100", "transformers/fp16-and-bf16", 'E', true, "5.x"},
            {"{fp16: true}", v5, "h100", "transformers/fp16-and-bf16", 'E', false, "one"},
            {"{fp16_full_eval: true, bf16_full_eval: true}", v5, "h100", "transformers/full-eval-both", 'E', true,
             "both"},
            {"{fp16: true}", "transformers=4.40", "cpu", "transformers/fp16-unsupported", 'E', true,
             "up to 4.40: off CUDA and NPU"},
            {"{fp16_full_eval: true}", "transformers=4.40", "tpu", "transformers/fp16-unsupported", 'E', true,
             "a TPU as well"},
            {"{fp16: true}", "transformers=4.40", "npu", "transformers/fp16-unsupported", 'E', false, "an NPU is fine"},
            {"{fp16: true}", v4, "cpu", "transformers/fp16-unsupported", 'E', false, "4.41 with a new torch"},
            {"{fp16: true}", "transformers=4.41.2,torch=2.2", "cpu", "transformers/fp16-unsupported", 'E', true,
             "4.41 with torch before 2.3"},
            {"{fp16: true, use_cpu: true}", "transformers=4.41.2,torch=2.2", "h100", "transformers/fp16-unsupported",
             'E', true, "use_cpu selects the CPU"},
            {"{fp16: true}", v5, "cpu", "transformers/fp16-unsupported", 'E', false, "5.x does not refuse it"},
            {"{fp16: true}", v5, "cpu", "transformers/fp16-on-cpu", 'W', true, "and it has no effect"},
            {"{fp16: true}", v457, "cpu", "transformers/fp16-on-cpu", 'W', true, "from 4.57"},
            {"{fp16: true}", v5, "h100", "transformers/fp16-on-cpu", 'W', false, "a GPU"},
            {"{bf16: true}", v5, "cpu", "transformers/bf16-unsupported", 'E', true, "5.x requires use_cpu"},
            {"{bf16: true, use_cpu: true}", v5, "cpu", "transformers/bf16-unsupported", 'E', false, "use_cpu is set"},
            {"{bf16: true}", v4, "cpu", "transformers/bf16-unsupported", 'E', false, "4.41 accepts it"},
            {"{bf16: true}", v457, "cpu", "transformers/bf16-unsupported", 'E', true, "4.57 does not"},
            {"{bf16: true}", v5, "v100", "transformers/bf16-unsupported", 'E', false, "V100 passes since torch 2.2"},
            {"{bf16: true}", v5, "v100", "transformers/bf16-emulated", 'W', true, "emulated"},
            {"{bf16: true}", v5, "t4", "transformers/bf16-emulated", 'W', true, "emulated"},
            {"{bf16: true}", v5, "a100", "transformers/bf16-emulated", 'W', false, "native"},
            {"{bf16: true, half_precision_backend: apex}", v4, "h100", "transformers/bf16-apex", 'E', true,
             "Apex has no bf16"},
            {"{bf16: true, half_precision_backend: auto}", v4, "h100", "transformers/bf16-apex", 'E', false, "auto"},
            {"{fp16: true, half_precision_backend: cpu_amp}", v4, "cpu", "transformers/fp16-cpu-amp", 'E', true,
             "no fp16 on a CPU"},
            {"{fp16: true, half_precision_backend: cuda_amp}", v4, "h100", "transformers/fp16-cpu-amp", 'E', false,
             "cuda_amp"},
            {"{fp16: true, fp16_backend: apex}", v4, "h100", "transformers/fp16-backend-deprecated", 'W', true,
             "deprecated"},
            {"{fp16: true, fp16_backend: auto}", v4, "h100", "transformers/fp16-backend-deprecated", 'W', false,
             "its default"},
            {"{fp16: true, half_precision_backend: apex}", v5, "h100", "transformers/key-of-other-version", 'U', true,
             "removed in 5"},
            {"{fp16: true, no_cuda: true}", v5, "h100", "transformers/key-of-other-version", 'U', true, "removed in 5"},
            {"{fp16: true, fp16_opt_level: O2}", v4, "h100", "transformers/opt-level-unread", 'I', true, "not Apex"},
            {"{fp16: true, fp16_opt_level: O2, half_precision_backend: apex}", v4, "h100",
             "transformers/opt-level-unread", 'I', false, "Apex"},
            {"{tf32: true}", v5, "v100", "transformers/tf32-unsupported", 'E', true, "Ampere or newer"},
            {"{tf32: true}", v5, "mi300x", "transformers/tf32-unsupported", 'E', true, "NVIDIA only"},
            {"{tf32: true}", v5, "a100", "transformers/tf32-unsupported", 'E', false, "Ampere"},
            {"{tf32: false}", v5, "v100", "transformers/tf32-unsupported", 'E', false, "off"},
            {"{torch_compile: true}", v5, "a100", "transformers/tf32-by-compile", 'N', true, "unset and not fp16"},
            {"{torch_compile: true, fp16: true}", v5, "a100", "transformers/tf32-by-compile", 'N', false, "fp16"},
            {"{torch_compile: true, bf16: true}", v5, "a100", "transformers/tf32-by-compile", 'N', true, "bf16"},
            {"{torch_compile_backend: inductor}", v5, "a100", "transformers/torch-compile", 'W', true,
             "by naming the backend"},
            {"{fp16: true}", v5, "h100", "transformers/fused-skip", 'W', true, "fused by default"},
            {"{fp16: true}", v4, "h100", "transformers/fused-skip", 'W', false, "not in 4.41"},
            {"{fp16: true, optim: adamw_torch_fused}", v4, "h100", "transformers/fused-skip", 'W', true, "requested"},
            {"{bf16: true}", v5, "h100", "transformers/fused-skip", 'W', false, "no scaler"},
            {"{bf16: true}", v5, "h100", "transformers/nan-filter", 'W', true, "on by default"},
            {"{bf16: true, logging_nan_inf_filter: false}", v5, "h100", "transformers/nan-filter", 'W', false, "off"},
            {"{fp16_full_eval: true}", v5, "h100", "transformers/full-eval", 'N', true, "outside training"},
            {"{bf16: \"false\"}", v5, "h100", "transformers/quoted-boolean", 'W', true, "a text is true"},
            {"{bf16: true, fsdp: full_shard}", v5, "h100", "transformers/fsdp-low-reduce", 'W', true,
             "reduced in bf16"},
            {"{bf16: true, fsdp: \"\"}", v5, "h100", "transformers/fsdp-low-reduce", 'W', false, "no FSDP"},
            {"{bf16: true, fsdp_config: {xla: false}}", v5, "h100", "transformers/fsdp-config-unread", 'I', true,
             "without fsdp"},
            {"{bf16: true, bf_16: true}", v5, "h100", "transformers/unknown-key", 'U', true, "no such field"},
            {"{bf16: true, deepspeed: nowhere.json}", v5, "h100", "transformers/missing-file", 'E', true,
             "a missing file"},
        });
}

TEST_CASE("a quoted boolean switches bf16 on in TrainingArguments", "[import][transformers]") {
    CHECK(field_of(arguments("{bf16: \"false\"}"), "compute") == "B");
    CHECK(field_of(arguments("{bf16: false}"), "compute") == "F");
}

TEST_CASE("in transformers 5, a low-precision checkpoint has no master weights, and the scaler refuses its gradients",
          "[import][transformers]") {
    CHECK(find_rule(arguments("bf16: true", v5, "h100", "bf16"), "transformers/no-master", 'W'));
    CHECK_FALSE(find_rule(arguments("bf16: true", v4, "h100", "bf16"), "transformers/no-master"));
    CHECK_FALSE(find_rule(arguments("bf16: true", v5, "h100", "fp32"), "transformers/no-master"));
    const ImportResult half = arguments("fp16: true", v5, "h100", "fp16");
    REQUIRE(find_rule(half, "transformers/low-weights-under-scaler", 'E'));
    CHECK(find_rule(half, "transformers/low-weights-under-scaler")->message.find("unscale FP16 gradients") !=
          std::string::npos);
    CHECK(find_rule(arguments("fp16: true", v5, "h100", "bf16"), "transformers/low-weights-under-scaler", 'E'));
    CHECK_FALSE(find_rule(arguments("fp16: true", v4, "h100", "fp16"), "transformers/low-weights-under-scaler"));
}

TEST_CASE("TrainingArguments replace \"auto\" in the DeepSpeed file that they name", "[import][transformers]") {
    const char* section =
        R"({"fp16": {"enabled": "auto", "loss_scale_window": 500}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}, "gradient_clipping": "auto"})";
    const ImportResult fp16 = with_deepspeed("{fp16: true, deepspeed: ds.json, max_grad_norm: 0.3}", section);
    CHECK_FALSE(fp16.refused());
    CHECK(fields_of(fp16, storage_fields) ==
          "store=H compute=H oplist=none master=F grad=H accum=H reduce=H opt_state=F eval=H");
    CHECK(field_of(fp16, "scaler") ==
          "ds-zero init_scale=65536 growth_interval=500 hysteresis=2 consecutive_hysteresis=false min_scale=1 "
          "version=0.19.8 growth_step_half_grad=true");
    CHECK(field_of(fp16, "clip") == "deepspeed max=0.3");
    CHECK_FALSE(find_rule(fp16, "deepspeed/auto"));
    CHECK_FALSE(find_rule(fp16, "transformers/fused-skip"));  // DeepSpeed's scaler is used, not torch's
    const ImportResult bf16 =
        with_deepspeed("{bf16: true, deepspeed: ds.json}", section, "transformers=4.41.2,deepspeed=0.16.5");
    CHECK(field_of(bf16, "compute") == "B");
    CHECK(field_of(with_deepspeed("{deepspeed: ds.json}", section), "compute") == "F");
    CHECK(field_of(with_deepspeed("{fp16_full_eval: true, deepspeed: ds.json}", section), "compute") == "H");
    CHECK(field_of(with_deepspeed("{fp16: true, fp16_backend: apex, deepspeed: ds.json}", section, v4), "compute") ==
          "F");
}

TEST_CASE("differences between DeepSpeed's section and the arguments are one error that lists all of them",
          "[import][transformers]") {
    const ImportResult result = with_deepspeed(
        "{bf16: true, deepspeed: ds.json, learning_rate: 1.0e-5, gradient_accumulation_steps: 4}",
        R"({"bf16": {"enabled": false}, "zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 2,
                                                   "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}, "gradient_clipping": 1.0})");
    CHECK(result.refused());
    const Finding* found = find_rule(result, "transformers/deepspeed-mismatch", 'E');
    REQUIRE(found);
    for (const char* part : {"bf16.enabled", "gradient_accumulation_steps", "optimizer.params.lr"})
        CHECK(found->message.find(part) != std::string::npos);
    CHECK(found->message.find("gradient_clipping") == std::string::npos);
    const ImportResult same = with_deepspeed(
        "{bf16: true, deepspeed: ds.json, learning_rate: 3e-5}",
        R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "optimizer": {"type": "AdamW", "params": {"lr": 0.00003}}})");
    CHECK_FALSE(find_rule(same, "transformers/deepspeed-mismatch"));
}

TEST_CASE("DeepSpeed's section may be inside the arguments, and must then contain zero_optimization",
          "[import][transformers]") {
    const ImportResult inline_map =
        arguments("{bf16: true, deepspeed: {bf16: {enabled: auto}, zero_optimization: {stage: 3}}}");
    CHECK(field_of(inline_map, "compute") == "B");
    CHECK(field_of(inline_map, "master") == "F");
    CHECK_FALSE(find_rule(inline_map, "transformers/deepspeed-without-zero"));
    CHECK(find_rule(arguments("{bf16: true, deepspeed: {bf16: {enabled: auto}}}"),
                    "transformers/deepspeed-without-zero", 'E'));
    CHECK(find_rule(arguments("{bf16: true, fsdp: full_shard, deepspeed: {zero_optimization: {stage: 3}}}"),
                    "transformers/deepspeed-and-fsdp", 'E'));
    const ImportResult text = arguments(
        R"({"bf16": true, "deepspeed": "{\"bf16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 3}}"})");
    CHECK(field_of(text, "master") == "F");
    CHECK(find_rule(arguments(R"({"bf16": true, "deepspeed": "{\"bf16\": "})"), "transformers/unreadable-map", 'E'));
}

TEST_CASE("two arguments of a script about one setting are reported", "[import][transformers]") {
    check_triggers(
        "transformers",
        {{"{dtype: float32, torch_dtype: float16}", "", "a100", "transformers/two-dtypes", 'C', true, "two names"},
         {"{torch_dtype: float16}", "", "a100", "transformers/two-dtypes", 'C', false, "one name"},
         {"{load_in_4bit: true, load_in_8bit: true}", "", "a100", "transformers/load-in-both", 'W', true, "two widths"},
         {"{load_in_4bit: true}", "", "a100", "transformers/load-in-both", 'W', false, "one width"}});
    CHECK(field_of(arguments("{dtype: float32, torch_dtype: float16}"), "store") == "F");
    CHECK(field_of(arguments("{dtype: float16, torch_dtype: float32}"), "store") == "H");
}

}  // namespace import_transformers_test
