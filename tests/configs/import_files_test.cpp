// SPDX-License-Identifier: Apache-2.0
// Tests imports of several files. Each file is recognised separately, a file may name another file, and keys of
// different frameworks never mix.
#include "core/error.hpp"
#include "tests/configs/import_case.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace import_files_test {

using namespace macheps;
using namespace macheps::configs;
using test::ConfigFolder;

namespace {

namespace fs = std::filesystem;

/// The outcome of an import: a result, or the error that rejected it.
struct Outcome {
    std::optional<ImportResult> result{};
    std::string error{};
};

Outcome outcome_of(const std::vector<std::string>& files) {
    try {
        return {.result = import_config(files, {})};
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        return {.error = error.what()};
    }
}

/// Returns the fields with their sources, the findings and the policy as text. Omits the note that one of the given
/// files names another.
std::string words_of_result(const ImportResult& result) {
    std::string text = std::string(result.framework->name) + "\n";
    for (const ResolvedField* field : result.resolved.fields())
        text += fmt::format("{} {} {}\n", field->name, field_text(field->value), field->from);
    for (const Finding& one : result.findings) {
        if (one.rule.ends_with("/named-file")) continue;
        text += fmt::format("{} {} {} {}\n", static_cast<char>(one.code), one.rule, to_string(one.place), one.message);
    }
    return text + result.policy;
}

struct Sample {
    std::string path;
    ImportResult alone;
};

bool names(const Sample& a, const Sample& b) {
    std::error_code failed;
    return std::any_of(a.alone.included.begin(), a.alone.included.end(),
                       [&](const std::string& one) { return fs::equivalent(one, b.path, failed); });
}

/// Imports two files in both orders and checks the results. If one file names the other, the result is that of the
/// naming file alone. Otherwise, files of one framework are joined, and files of two frameworks are refused. Returns
/// which case applied.
const char* check_pair(const Sample& a, const Sample& b) {
    CAPTURE(a.path, b.path, a.alone.framework->name, b.alone.framework->name);
    const Outcome one = outcome_of({a.path, b.path}), other = outcome_of({b.path, a.path});
    CAPTURE(one.error, other.error);
    if (const Sample* main = names(a, b) ? &a : names(b, a) ? &b : nullptr; main != nullptr) {
        REQUIRE(one.result);
        REQUIRE(other.result);
        CHECK(words_of_result(*one.result) == words_of_result(main->alone));
        CHECK(words_of_result(*other.result) == words_of_result(main->alone));
        for (const ImportResult* result : {&*one.result, &*other.result}) {
            CHECK(test::find_rule(*result, fmt::format("{}/named-file", main->alone.framework->name), 'N') != nullptr);
        }
        return "named";
    }
    if (a.alone.framework != b.alone.framework) {
        CHECK_FALSE(one.result);
        CHECK_FALSE(other.result);
        for (const std::string* error : {&one.error, &other.error}) {
            CHECK(error->find("neither names the other") != std::string::npos);
            for (const Sample* sample : {&a, &b}) {
                CHECK(error->find(sample->path) != std::string::npos);
                CHECK(error->find(sample->alone.framework->title) != std::string::npos);
            }
        }
        return "refused";
    }
    REQUIRE(one.result);
    REQUIRE(other.result);
    CHECK(one.result->framework == a.alone.framework);
    CHECK(other.result->framework == a.alone.framework);
    return "joined";
}

/// Imports each file alone. Returns the files for which this succeeds.
std::vector<Sample> samples_of(const std::vector<std::string>& files) {
    std::vector<Sample> samples;
    for (const std::string& file : files) {
        if (Outcome outcome = outcome_of({file}); outcome.result)
            samples.push_back({.path = file, .alone = std::move(*outcome.result)});
    }
    return samples;
}

std::map<std::string, int> check_pairs(const std::vector<Sample>& samples) {
    std::map<std::string, int> counts;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        for (std::size_t j = i + 1; j < samples.size(); ++j) ++counts[check_pair(samples[i], samples[j])];
    }
    std::cout << "pairs of configs, in both orders:";
    for (const auto& [what, count] : counts) std::cout << ' ' << what << ' ' << count;
    std::cout << std::endl;
    return counts;
}

std::vector<std::string> files_in(const fs::path& folder, std::size_t every = 1) {
    static const std::set<std::string> endings{".json", ".yaml", ".yml", ".args"};
    std::vector<std::string> files, some;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file() && endings.contains(entry.path().extension().string()))
            files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    for (std::size_t i = 0; i < files.size(); i += every) some.push_back(files[i]);
    return some;
}

constexpr const char* all_auto =
    R"({"fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2,
        "min_loss_scale": 1}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}, "gradient_clipping": "auto"})";

/// A config that names a DeepSpeed file. FILE is a placeholder for the path of that file.
struct Namer {
    const char *framework, *text;
    const char* reader = framework;  ///< the importer that reads the file
};
constexpr Namer namers[] = {
    {"transformers",
     "{per_device_train_batch_size: 4, learning_rate: 2.0e-5, output_dir: out, fp16: true, deepspeed: FILE}"},
    {"llamafactory",
     "{model_name_or_path: my/model, stage: sft, do_train: true, finetuning_type: full, template: llama3, fp16: true, "
     "deepspeed: FILE}"},
    {"axolotl", "{base_model: my/model, micro_batch_size: 1, sequence_len: 8, fp16: true, deepspeed: FILE}"},
    {"accelerate",
     "{compute_environment: LOCAL_MACHINE, distributed_type: DEEPSPEED, mixed_precision: fp16, num_processes: 2, "
     "deepspeed_config: {deepspeed_config_file: FILE}}"},
    {"trl", "{model_name_or_path: my/model, dataset_name: d, max_length: 8, fp16: true, deepspeed: FILE}",
     "transformers"},
};

std::string naming(const Namer& namer, const std::string& path) {
    std::string text = namer.text;
    return text.replace(text.find("FILE"), 4, path);
}

}  // namespace

TEST_CASE(
    "if one given file refers to another, both are read as one config with a note, in whichever order they are given",
    "[import]") {
    for (const Namer& namer : namers) {
        CAPTURE(namer.framework);
        const ConfigFolder folder;
        const std::string part = folder.write("ds_z3.json", all_auto);
        const std::string alone =
            words_of_result(import_config(std::vector{folder.write("main.yaml", naming(namer, "ds_z3.json"))}, {}));
        CHECK(alone.find("compute fp16") != std::string::npos);
        CHECK(alone.find("refuses") == std::string::npos);
        const std::string main = folder.write("main.yaml", naming(namer, "ds_z3.json"));
        for (const auto& files : {std::vector{main, part}, std::vector{part, main}}) {
            const ImportResult result = import_config(files, {});
            CHECK(result.framework->name == namer.framework);
            CHECK(words_of_result(result) == alone);
            const Finding* note = test::find_rule(result, fmt::format("{}/named-file", namer.framework), 'N');
            REQUIRE(note != nullptr);
            CHECK(note->place.file == main);
            CHECK(note->message.find(part) != std::string::npos);
        }
        // The path does not exist on this machine, so the given file with the same name is used.
        const std::string elsewhere = folder.write("main.yaml", naming(namer, "/elsewhere/configs/ds_z3.json"));
        for (const auto& files : {std::vector{elsewhere, part}, std::vector{part, elsewhere}}) {
            const ImportResult result = import_config(files, {});
            CHECK(result.framework->name == namer.framework);
            CHECK(test::field_of(result, "compute") == "H");
            CHECK(test::find_rule(result, fmt::format("{}/file-by-name", namer.reader), 'N') != nullptr);
            CHECK(test::find_rule(result, fmt::format("{}/missing-file", namer.reader)) == nullptr);
        }
    }
}

TEST_CASE("the override that the error about files of two frameworks suggests makes both files one config",
          "[import]") {
    const ConfigFolder folder;
    const std::string main = folder.write("hf.yaml", "{per_device_train_batch_size: 4, output_dir: out, fp16: true}");
    const std::string part = folder.write("ds.json", all_auto);
    for (const auto& files : {std::vector{main, part}, std::vector{part, main}}) {
        const Outcome refused = outcome_of(files);
        CHECK_FALSE(refused.result);
        CAPTURE(refused.error);
        CHECK(refused.error.find(fmt::format("add `deepspeed: {}` to {}, pass deepspeed={}", part, main, part)) !=
              std::string::npos);
    }
    const std::string given = fmt::format("deepspeed={}", part);
    for (const auto& files : {std::vector{main, part, given}, std::vector{part, given, main}}) {
        const ImportResult result = import_config(files, {});
        CHECK(result.framework->name == "transformers");
        CHECK(test::field_of(result, "compute") == "H");
        CHECK_FALSE(result.refused());
    }
}

TEST_CASE("if the user names a framework, files that cannot belong to it are refused", "[import]") {
    const ConfigFolder folder;
    const std::string main = folder.write("hf.yaml", "{per_device_train_batch_size: 4, output_dir: out, bf16: true}");
    const std::string more = folder.write("more.yaml", "{max_grad_norm: 0.5}");
    const std::string part = folder.write("ds.json", all_auto);
    ImportOptions options;
    options.framework = "transformers";
    CHECK(import_config(std::vector{main, more}, options).framework->name == "transformers");
    CHECK(import_config(std::vector{more, main}, options).resolved.word("compute") == "B");
    CHECK_THROWS_WITH(import_config(std::vector{main, part}, options), Catch::Contains("neither names the other"));
    CHECK_THROWS_WITH(import_config(std::vector{part, main}, options), Catch::Contains("neither names the other"));
    options.framework = "deepspeed";
    CHECK_THROWS_WITH(import_config(std::vector{main, part}, options), Catch::Contains("neither names the other"));
}

TEST_CASE("for every pair of frameworks, the order of two files does not matter", "[import]") {
    const ConfigFolder folder;
    std::vector<std::string> files = files_in(fs::path(MACHEPS_SOURCE_DIR) / "examples/configs");
    const auto add = [&](const char* name, std::string_view text) { files.push_back(folder.write(name, text)); };
    add("apex.yaml", "{opt_level: O2}");
    add("composer.yaml", "{max_duration: 1ba, precision: amp_bf16, train_loader: {name: text}}");
    add("kohya.yaml", "{pretrained_model_name_or_path: m, network_module: n, mixed_precision: fp16}");
    add("lightning.yaml", "{trainer: {precision: 16-mixed, strategy: ddp}, seed_everything: 1}");
    add("longspec.yaml", "{ds_cfg: {fp16: {enabled: true}}, fp16_bfloat16: true, fp16: true}");
    add("megatron.args", "--num-layers 2 --bf16 --clip-grad 1.0\n");
    add("nanogpt.yaml", "{dtype: float16, device: cuda, grad_clip: 1.0, n_layer: 2, block_size: 8, n_embd: 16}");
    add("neox.yml", "{num_layers: 2, train_batch_size: 4, precision: fp16}");
    add("torch.yaml", "{autocast: {dtype: float16}, grad_scaler: {}}");
    add("torchtitan.yaml", "{model: {flavor: 8B}, training: {local_batch_size: 1}}");
    add("torchtune.yaml", "{model: {_component_: torchtune.models.llama2.llama2_7b}, dtype: bf16}");
    add("verl.yaml", "{actor_rollout_ref: {actor: {strategy: fsdp}}}");
    add("ds_z3.json", all_auto);
    for (const Namer& namer : namers) {
        add(fmt::format("{}.yaml", namer.framework).c_str(), naming(namer, "ds_z3.json"));
        std::string plain = namer.text;
        const std::size_t at = plain.rfind(", deepspeed");
        add(fmt::format("plain_{}.yaml", namer.framework).c_str(), plain.substr(0, at) + "}");
    }
    const std::vector<Sample> samples = samples_of(files);
    CHECK(samples.size() == files.size());
    std::set<std::string_view> seen;
    for (const Sample& one : samples) seen.insert(one.alone.framework->name);
    CHECK(seen.size() == frameworks().size());
    const auto counts = check_pairs(samples);
    CHECK(counts.at("named") == std::size(namers));
    CHECK(counts.at("joined") >= 4);
    CHECK(counts.at("refused") > 90);
}

TEST_CASE("for pairs of configs from problem reports, the order of the files does not matter", "[import][real]") {
    const fs::path shared = test::shared_folder();
    if (shared.empty() || !fs::is_directory(shared / "cases/configs")) SKIP_TEST("no folder of reported configs");
    const auto counts = check_pairs(samples_of(files_in(shared / "cases/configs")));
    CHECK(counts.at("named") >= 1);
    CHECK(counts.at("refused") > 100);
}

TEST_CASE("for pairs of the published configs, the order of the files does not matter", "[import][real][slow]") {
    const fs::path shared = test::shared_folder();
    if (shared.empty() || !fs::is_directory(shared / "configs")) SKIP_TEST("no folder of published configs");
    const auto counts = check_pairs(samples_of(files_in(shared / "configs", 2)));
    CHECK(counts.at("refused") > 5000);
}

}  // namespace import_files_test
