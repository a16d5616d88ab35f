// SPDX-License-Identifier: Apache-2.0
// Tests the decision in which format to train, for each device and for what is known about the weights, and that no
// advice contradicts it.
#include "experiments/configs/memory/training_format.hpp"
#include "experiments/configs/memory/advise.hpp"
#include "experiments/configs/remedy/remedies.hpp"
#include "tests/configs/import_case.hpp"

#include <string>
#include <vector>

namespace training_format_test {

using namespace macheps;
using namespace macheps::configs;

namespace {

/// What is known about the weights: the dtype of the checkpoint (empty: not given), the file that gives it, the
/// model_type of config.json and the name of the model. `trained_in_bf16` is the expected conclusion.
struct Weights {
    const char *checkpoint, *file, *type, *name;
    bool trained_in_bf16;
    const char* why;
};
constexpr Weights weights[] = {
    {"", "", "", "my/model", false, "nothing is known"},
    {"", "", "", "google/flan-t5-large", true, "T5 by its name"},
    {"", "", "", "Qwen/Qwen2.5-7B", true, "another family by its name"},
    {"", "", "", "gpt2", false, "a family without a row"},
    {"bf16", "", "", "my/model", true, "the option says so"},
    {"fp32", "", "", "google/flan-t5-large", false, "the option takes precedence over a name"},
    {"fp16", "", "", "my/model", false, "the option says otherwise"},
    {"bf16", "config.json", "gpt2", "my/model", true, "config.json says so"},
    {"fp32", "config.json", "t5", "my/model", true, "T5 is stored in fp32 after a training in bf16"},
    {"fp32", "config.json", "gpt2", "my/model", false, "config.json says otherwise"},
    {"fp32", "", "t5", "my/model", false, "the option takes precedence over config.json"},
};

/// Devices, with the format for weights about which nothing is known.
struct Device {
    const char* name;
    char format;
};
constexpr Device devices[] = {{"t4", 'H'},   {"v100", 'H'},  {"p100", 'H'}, {"gtx1660", 'H'}, {"a100", 'B'},
                              {"h100", 'B'}, {"mi250", 'B'}, {"cpu", 'B'},  {"tpu", 'B'}};

ImportOptions options_of(const Weights& known, const char* framework, const char* device) {
    ImportOptions options;
    options.framework = framework;
    options.device = device;
    options.device_is_default = false;
    // Transformers 5 loads weights in the format of the checkpoint, whatever the format of the training.
    options.versions["transformers"] = parse_version("4.57.1");
    options.model.type = known.type;
    options.checkpoint_file = known.file;
    options.checkpoint_is_default = *known.checkpoint == '\0';
    if (!options.checkpoint_is_default) options.checkpoint_dtype = known.checkpoint;
    return options;
}

}  // namespace

TEST_CASE("a training uses bf16 if the device multiplies it, and fp16 only for weights that were not trained in bf16",
          "[import][advice]") {
    for (const Device& device : devices) {
        const DeviceProfile& profile = *find_device_profile(device.name);
        CAPTURE(device.name);
        CHECK(training_format(profile, false) == device.format);
        CHECK(training_format(profile, true) == (device.format == 'H' ? 'F' : device.format));
        for (const bool trained_in_bf16 : {false, true}) {
            const std::string preset(training_preset(training_format(profile, trained_in_bf16)));
            const std::string advised =
                advise({.device = &profile, .goal = Goal::finetune, .trained_in_bf16 = trained_in_bf16}).front().policy;
            CAPTURE(advised);
            CHECK(advised.ends_with(preset));
            if (!trained_in_bf16 || profile.bf16) continue;
            for (const GoalRow& goal : goals()) {
                for (const Advice& one : advise({.device = &profile, .goal = goal.goal, .trained_in_bf16 = true}))
                    CHECK(one.policy.find("fp16") == std::string::npos);
            }
        }
    }
}

TEST_CASE("no config is advised to train in fp16 if its weights were trained in bf16", "[import][advice]") {
    struct Config {
        const char *framework, *model_key, *bf16, *fp16;
    };
    const Config configs[] = {
        {"transformers", "model_name_or_path", "bf16: true, output_dir: o", "fp16: true, output_dir: o"},
        {"trl", "model_name_or_path", "bf16: true, packing: true", "fp16: true, packing: true"},
        {"axolotl", "base_model", "bf16: true, micro_batch_size: 1, sequence_len: 8",
         "fp16: true, bf16: false, micro_batch_size: 1, sequence_len: 8"},
        {"llamafactory", "model_name_or_path", "pure_bf16: true, stage: sft, do_train: true, finetuning_type: full",
         "fp16: true, stage: sft, do_train: true, finetuning_type: full"},
        {"accelerate", "", "mixed_precision: bf16, distributed_type: \"NO\"",
         "mixed_precision: fp16, distributed_type: \"NO\""},
        {"deepspeed", "", "bf16: {enabled: true}, zero_optimization: {stage: 2}",
         "fp16: {enabled: true}, zero_optimization: {stage: 2}"},
        {"composer", "", "max_duration: 1ba, precision: amp_bf16", "max_duration: 1ba, precision: amp_fp16"},
        {"nanogpt", "init_from", "dtype: bfloat16, device: cuda", "dtype: float16, device: cuda"},
        {"kohya", "pretrained_model_name_or_path", "mixed_precision: bf16", "mixed_precision: fp16"},
        {"lightning", "", "trainer: {precision: bf16-mixed}", "trainer: {precision: 16-mixed}"},
        {"megatron", "load", "bf16: true, num-layers: 2", "fp16: true, num-layers: 2"},
    };
    const test::ConfigFolder folder;
    int warned = 0, ended = 0;
    for (const Config& config : configs) {
        for (const Weights& known : weights) {
            const bool has_name = *config.model_key != '\0';
            const bool is_bf16 =
                known.trained_in_bf16 && (has_name || *known.type != '\0' || *known.checkpoint != '\0');
            const std::string model = has_name ? fmt::format("{}: {}, ", config.model_key, known.name) : "";
            for (const Device& device : devices) {
                const ImportOptions options = options_of(known, config.framework, device.name);
                CAPTURE(config.framework, known.why, device.name);
                const std::vector bf16{folder.write("bf16.yaml", fmt::format("{{{}{}}}", model, config.bf16))};
                const ImportResult result = import_config(bf16, options);
                CHECK(result.trained_in_bf16 == is_bf16);
                for (const Finding& finding : result.findings) {
                    CAPTURE(finding.rule, finding.instead);
                    if (finding.rule.ends_with("bf16-emulated") && !is_bf16) ++warned;
                    if (!is_bf16) continue;
                    for (const char* words : {"fp16: true", "fp16, with", "--fp16", "amp_fp16", "float16\"", "\"fp16\"",
                                              "mixed_precision: fp16", "16-mixed"}) {
                        const std::size_t at = finding.instead.find(words);
                        CHECK((at == std::string::npos || finding.instead.substr(0, at).ends_with("bf")));
                    }
                }
                // The settings against fp16 are tested by an import, and train in the format of the device.
                const std::vector fp16{folder.write("fp16.yaml", fmt::format("{{{}{}}}", model, config.fp16))};
                const FormatSettings* settings = format_settings(config.framework);
                if (!is_bf16 || settings == nullptr || find_device_profile(device.name)->fp16 == false) continue;
                const Remedies all = find_remedies(fp16, options);
                std::vector<Setting> written;
                for (const Remedy& one : all.remedies)
                    written.insert(written.end(), one.settings.begin(), one.settings.end());
                const std::optional<ImportResult> after = import_with(fp16, written, options);
                REQUIRE(after);
                ++ended;
                CHECK(after->resolved.word("compute") == (device.format == 'B' ? "B" : "F"));
                CHECK(test::find_rule(*after, fmt::format("{}/bf16-checkpoint-in-fp16", config.framework)) == nullptr);
                CHECK_FALSE(all.patch.empty());
            }
        }
    }
    CHECK(warned > 20);  // the advice of fp16 for other weights remains
    CHECK(ended > 100);
}

}  // namespace training_format_test
