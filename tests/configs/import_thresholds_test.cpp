// SPDX-License-Identifier: Apache-2.0
// Tests every framework release at which the result of an importer changes. The release before it must give a different
// result.
#include "tests/configs/import_case.hpp"

#include <map>
#include <regex>
#include <sstream>

namespace import_thresholds_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

/// Selects one of two imports: with the last release before a change, or with the first release since the change.
enum class Of { before, since };

/// A place in the source of the importers where the framework version is compared with `version`, and a config whose
/// import depends on this comparison.
struct Threshold {
    const char* file;
    const char* version;  ///< as the source writes it
    const char* before;   ///< the last release before the change, such as "deepspeed=0.17.5"
    const char* since;    ///< the first release with the change
    const char* framework;
    const char* device;
    const char* checkpoint;
    const char* config;
    Of of;             ///< the import whose result contains `text`
    const char* text;  ///< a part of a field or a finding
};

constexpr const char* h100 = "h100";

// The releases are the releases on PyPI.
constexpr Threshold thresholds[] = {
    {"deepspeed/deepspeed.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}})", Of::before, "field accum F"},
    {"deepspeed/deepspeed.cpp", "0.17.1", "deepspeed=0.17.0", "deepspeed=0.17.1", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": "auto"}})", Of::before, "field compute H"},
    {"deepspeed/deepspeed.cpp", "0.17.2", "deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", h100, "fp32",
     R"({"torch_autocast": {"enabled": true, "dtype": "bfloat16"}})", Of::since, "field compute B"},
    {"deepspeed/deepspeed.cpp", "0.19.3", "deepspeed=0.19.2", "deepspeed=0.19.3", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", Of::before, "field reduce F"},
    {"deepspeed/deepspeed.cpp", "0.19.2", "deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::since, "field buffers F"},
    {"deepspeed/findings.cpp", "0.17.2", "deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::since,
     "torch_autocast, which keeps the model in fp32"},
    {"deepspeed/findings.cpp", "0.19.2", "deepspeed=0.19.1", "deepspeed=0.19.2", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})", Of::before,
     "buffers are cast to bf16 with the model"},
    {"deepspeed/findings.cpp", "0.19", "deepspeed=0.18.9", "deepspeed=0.19.0", "deepspeed", h100, "fp32",
     R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 1}})",
     Of::before, "E deepspeed/fp16-masters"},
    {"deepspeed/findings.cpp", "0.19", "deepspeed=0.18.9", "deepspeed=0.19.0", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true, "bf16_optimizer_states": true}, "zero_optimization": {"stage": 1}})", Of::since,
     "E deepspeed/bf16-masters"},
    {"deepspeed/findings.cpp", "0.17.6", "deepspeed=0.17.5", "deepspeed=0.17.6", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"}})", Of::before,
     "E deepspeed/accumulation-mix"},
    {"deepspeed/findings.cpp", "0.19.3", "deepspeed=0.19.2", "deepspeed=0.19.3", "deepspeed", h100, "fp32",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})", Of::since,
     "E deepspeed/accumulation-mix"},
    {"deepspeed/findings.cpp", "0.17.2", "deepspeed=0.17.1", "deepspeed=0.17.2", "deepspeed", h100, "fp32",
     R"({"torch_autocast": {"enabled": false}})", Of::since, "an autocast region around the engine has no effect"},
    {"transformers/findings.cpp", "4.57", "transformers=4.56.2,torch=2.2.0", "transformers=4.57.0,torch=2.2.0",
     "transformers", "cpu", "fp32", "fp16: true", Of::before, "E transformers/fp16-unsupported"},
    {"transformers/findings.cpp", "4.41", "transformers=4.40.2", "transformers=4.41.0", "transformers", "cpu", "fp32",
     "fp16: true", Of::before, "E transformers/fp16-unsupported"},
    {"transformers/findings.cpp", "2.3", "transformers=4.50.0,torch=2.2.2", "transformers=4.50.0,torch=2.3.0",
     "transformers", "cpu", "fp32", "fp16: true", Of::before, "E transformers/fp16-unsupported"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nhalf_precision_backend: cpu_amp", Of::before, "E transformers/fp16-cpu-amp"},
    {"transformers/findings.cpp", "4.57", "transformers=4.56.2", "transformers=4.57.0", "transformers", "cpu", "fp32",
     "bf16: true", Of::since, "unless use_cpu is true"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "bf16: true\nhalf_precision_backend: apex", Of::before, "E transformers/bf16-apex"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_backend: apex", Of::before, "transformers/fp16-backend-deprecated"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_opt_level: O1", Of::before, "transformers/opt-level-unread"},
    {"transformers/findings.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_opt_level: O2\ndeepspeed: {\"amp\": {\"enabled\": true, \"opt_level\": \"O1\"}}", Of::before,
     "amp.opt_level is O1"},
    {"transformers/transformers.cpp", "5.14", "transformers=5.13.1", "transformers=5.14.0", "transformers", h100,
     "fp32", "bf16: true\nfsdp: full_shard", Of::since, "field predivide average"},
    {"transformers/transformers.cpp", "2.8", "transformers=5.14.0,torch=2.7.1", "transformers=5.14.0,torch=2.8.0",
     "transformers", h100, "fp32", "bf16: true", Of::since, "field opt_kernel fused"},
    {"transformers/transformers.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nhalf_precision_backend: apex", Of::before, "field oplist apex-o1"},
    {"transformers/transformers.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "bf16",
     "bf16: true", Of::since, "field store B"},
    {"transformers/keys.cpp", "5", "transformers=4.57.6", "transformers=5.0.0", "transformers", h100, "fp32",
     "fp16: true\nfp16_opt_level: O2\nhalf_precision_backend: apex\ndeepspeed: {\"amp\": {\"enabled\": true, "
     "\"opt_level\": \"O1\"}}",
     Of::before, "amp.opt_level is O1"},
    {"accelerate/findings.cpp", "0.34.2", "accelerate=0.34.1", "accelerate=0.34.2", "accelerate", h100, "fp32",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: no", Of::since, "and the launcher raises"},
    {"accelerate/findings.cpp", "0.34.2", "accelerate=0.34.1", "accelerate=0.34.2", "accelerate", h100, "fp32",
     "compute_environment: LOCAL_MACHINE\nmixed_precision: no", Of::before, "this version treats it as \"no\""},
    {"axolotl/axolotl.cpp", "0.17", "axolotl=0.16.1", "axolotl=0.17.0", "axolotl", h100, "fp32",
     "base_model: a\nadapter: lora\nload_in_4bit: true", Of::before, "nf4"},
    {"axolotl/findings.cpp", "0.5", "axolotl=0.4.1", "axolotl=0.5.0", "axolotl", h100, "fp32",
     "base_model: a\nbf16: full", Of::since, "the schema accepts auto, true and false"},
    {"llamafactory/llamafactory.cpp", "5", "llamafactory=0.9.3,transformers=4.57.6",
     "llamafactory=0.9.3,transformers=5.0.0", "llamafactory", h100, "fp32",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nbf16: true\nfp8: true", Of::since,
     "dropped: the Trainer fixes the precision"},
    {"lightning/lightning.cpp", "2.6.0", "lightning=2.5.6", "lightning=2.6.0", "lightning", h100, "fp32",
     "trainer: {strategy: fsdp, precision: bf16-mixed}", Of::before, "although it gathers the weights in fp32"},
    {"lightning/lightning.cpp", "2.6.4", "lightning=2.6.1", "lightning=2.6.4", "lightning", h100, "fp32",
     "trainer: {strategy: fsdp, precision: bf16-mixed}", Of::before, "field store B"},
    {"torchtitan/torchtitan.cpp", "0.2.0", "torchtitan=0.1.0", "torchtitan=0.2.0", "torchtitan", h100, "fp32",
     "model: {converters: [float8]}", Of::since, "raise KeyError for `float8`"},
    {"axolotl/conflicts.cpp", "0.17", "axolotl=0.16.1", "axolotl=0.17.0", "axolotl", h100, "fp32",
     "base_model: a\nattn_implementation: flash", Of::since, "which the validator refuses"},
    {"history/accelerate.cpp", "1.8.0", "accelerate=1.7.0", "accelerate=1.8.0", "accelerate", h100, "fp32",
     "distributed_type: MULTI_GPU\nmixed_precision: fp8\nfp8_config: {backend: AO}", Of::before,
     "acc-fp8-launcher-off"},
    {"history/deepspeed.cpp", "4.49", "deepspeed=0.18.3,transformers=4.48.3", "deepspeed=0.18.3,transformers=4.49.0",
     "transformers", h100, "fp32", "gradient_accumulation_steps: 4\ndeepspeed: {zero_optimization: {stage: 1}}",
     Of::since, "ds-scale-wrt-gas-ignored"},
    {"history/predicates.cpp", "4.46.0", "axolotl=0.5.0,transformers=4.45.2", "axolotl=0.5.0,transformers=4.46.0",
     "axolotl", h100, "fp32", "base_model: m\ngradient_accumulation_steps: 4", Of::since, "axo-ga"},
    {"history/predicates.cpp", "5", "accelerate=1.13.0,transformers=4.57.6", "accelerate=1.13.0,transformers=5.0.0",
     "transformers", h100, "bf16", "bf16: true\nfsdp: full_shard\nfsdp_config: {version: 2}", Of::since,
     "acc-fsdp2-upcast-noop"},
    {"history/transformers.cpp", "2.8", "torch=2.7.1", "torch=2.8.0", "transformers", h100, "fp32", "bf16: true",
     Of::since, "tf-optim-fused-default"},
    {"trl/trl.cpp", "0.19", "trl=0.18.2", "trl=0.19.0", "trl", h100, "fp32", "model_name_or_path: m", Of::since,
     "field compute B"},
    {"trl/trl.cpp", "0.22", "trl=0.21.0", "trl=0.22.0", "trl", h100, "fp32", "model_name_or_path: m", Of::since,
     "field ckpt true"},
    {"trl/trl.cpp", "0.23", "trl=0.22.2", "trl=0.23.0", "trl", h100, "fp32", "model_name_or_path: m\ndtype: bfloat16",
     Of::before, "E trl/dtype-too-new"},
    {"trl/trl.cpp", "0.26", "trl=0.25.1", "trl=0.26.0", "trl", h100, "fp32",
     "model_name_or_path: m\nload_in_4bit: true\nuse_peft: true", Of::since, "field adapter B"},
    {"trl/trl.cpp", "0.27", "trl=0.26.2", "trl=0.27.0", "trl", h100, "fp32",
     "model_name_or_path: m\ntorch_dtype: bfloat16", Of::since, "E trl/torch-dtype-removed"},
    {"trl/trl.cpp", "0.29", "trl=0.28.0", "trl=0.29.0", "trl", h100, "fp32",
     "model_name_or_path: m\nload_in_4bit: true\nuse_peft: true", Of::before, "the trainer for DPO keeps them in fp32"},
    {"trl/trl.cpp", "5", "trl=0.26.2,transformers=4.57.6", "trl=0.26.2,transformers=5.0.0", "trl", h100, "bf16",
     "model_name_or_path: m", Of::since, "field store B"},
    {"verl/verl.cpp", "0.6", "verl=0.5.0", "verl=0.6.0", "verl", h100, "fp32",
     "actor_rollout_ref: {actor: {fsdp_config: {no_such_key: 1}}}", Of::since, "and refuses the config"},
    {"verl/verl.cpp", "0.6.1", "verl=0.6.0", "verl=0.6.1", "verl", h100, "fp32",
     "actor_rollout_ref: {actor: {fsdp_config: {dtype: float16}}}", Of::since, "field compute H"},
    {"verl/verl.cpp", "0.8", "verl=0.7.1", "verl=0.8.0", "verl", h100, "fp32",
     "actor_rollout_ref: {actor: {fsdp_config: {mixed_precision: {param_dtype: fp16}}}}", Of::since, "field compute H"},
    {"gpt_neox/gpt_neox.cpp", "0.19.3", "deepspeed=0.19.2", "deepspeed=0.19.3", "gpt-neox", h100, "fp32",
     "{num_layers: 2, train_batch_size: 4, precision: fp16}", Of::since, "field clip deepspeed max=1"},
};

/// Returns the fields with their parts and the findings of an import, one per line.
std::string lines_of(const Threshold& at, const char* versions) {
    const ImportResult result = import_text(
        at.config, {.framework = at.framework, .versions = versions, .device = at.device, .checkpoint = at.checkpoint});
    std::string lines;
    for (const ResolvedField* field : result.resolved.fields())
        lines += fmt::format("field {} {}\n", field->name, field_of(result, field->name));
    for (const Finding& finding : result.findings) {
        lines += fmt::format("{} {}: {}; {}\n", static_cast<char>(finding.code), finding.rule, finding.message,
                             finding.instead);
    }
    return lines;
}

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("if an importer treats versions before and since a release differently, its result changes at that release",
          "[import][versions]") {
    for (const Threshold& at : thresholds) {
        const std::string before = lines_of(at, at.before), since = lines_of(at, at.since);
        CAPTURE(at.file, at.version, at.config, at.text, before, since);
        CHECK((before.find(at.text) != std::string::npos) == (at.of == Of::before));
        CHECK((since.find(at.text) != std::string::npos) == (at.of == Of::since));
    }
}

TEST_CASE("for every release that an importer distinguishes, this test has a config whose result depends on it",
          "[import][versions]") {
    std::map<std::string, int> compared, tested;
    const std::regex comparison(R"re((?:\bsince\((?:"\w+", )?|[<>]=? parse_version\()"([0-9.]+)"\))re");
    const std::filesystem::path folder = std::filesystem::path(MACHEPS_SOURCE_DIR) / "experiments/configs";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.path().extension() != ".cpp") continue;
        const std::string text = text_of(entry.path());
        for (std::sregex_iterator found(text.begin(), text.end(), comparison), end; found != end; ++found) {
            ++compared[std::filesystem::relative(entry.path(), folder).string() + " " + (*found)[1].str()];
        }
    }
    for (const Threshold& at : thresholds) ++tested[std::string(at.file) + " " + at.version];
    CHECK(compared.size() >= 16);
    for (const auto& [place, count] : compared) {
        CAPTURE(place);
        CHECK(tested[place] == count);
    }
    for (const auto& [place, count] : tested) {
        CAPTURE(place);
        CHECK(compared.contains(place));
    }
}

}  // namespace import_thresholds_test
