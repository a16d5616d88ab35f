// SPDX-License-Identifier: Apache-2.0
// Tests the settings that end the findings of a config, and the patch that writes them into its file.
#include "experiments/configs/remedy/remedies.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "tests/configs/import_case.hpp"
#include "tests/patched.hpp"

#include <filesystem>
#include <set>

namespace remedies_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

namespace fs = std::filesystem;

ImportOptions options_for(std::string_view framework) {
    ImportOptions options;
    options.framework = framework;
    options.device = "h100";
    options.device_is_default = options.checkpoint_is_default = false;
    return options;
}

std::set<std::string> grave_rules(const std::vector<Finding>& findings) {
    std::set<std::string> rules;
    for (const Finding& one : findings) {
        if (is_grave(one)) rules.insert(one.rule);
    }
    return rules;
}

/// Imports a file with its patch applied, under the same name.
ImportResult import_patched(const ConfigFolder& folder, const std::string& file, const std::string& patch,
                            const ImportOptions& options) {
    const std::string text = patched(read_file(file), patch);
    const std::string other = folder.write(fs::path(file).filename(), text);
    return import_config({&other, 1}, options);
}

}  // namespace

TEST_CASE("a patch ends the findings that settings end, and keeps the rest of the file", "[import][advice]") {
    const ConfigFolder folder;
    const std::string text =
        "{\n"
        "  \"fp16\": {\n    \"enabled\": true,\n    \"initial_scale_power\": 32\n  },\n"
        "  \"zero_optimization\": {\n    \"stage\": 0\n  },\n"
        "  \"steps_per_print\": 10\n"
        "}\n";
    const std::string file = folder.write("ds.json", text);
    const Remedies found = find_remedies({&file, 1}, options_for("deepspeed"));
    REQUIRE(found.remedies.size() == 2);
    CHECK(found.remedies[0].finding.rule == "deepspeed/ds-z0-fp16-unscaled");
    CHECK(found.remedies[0].settings.front().text() == "zero_optimization.stage=1");
    CHECK(found.remedies[1].finding.rule == "deepspeed/large-initial-scale");
    CHECK(patched(text, found.patch) ==
          "{\n"
          "  \"fp16\": {\n    \"enabled\": true,\n    \"initial_scale_power\": 16\n  },\n"
          "  \"zero_optimization\": {\n    \"stage\": 1\n  },\n"
          "  \"steps_per_print\": 10\n"
          "}\n");
    CHECK(found.remaining.empty());
}

TEST_CASE("a config without grave findings and a config of several files get no patch", "[import][advice]") {
    const ConfigFolder folder;
    const std::string good = folder.write("good.yaml", "bf16: true\nlogging_nan_inf_filter: false\n");
    CHECK(find_remedies({&good, 1}, options_for("transformers")).patch.empty());
    const std::string file = folder.write("ds.json", R"({"fp16": {"enabled": true, "initial_scale_power": 32}})");
    const std::vector<std::string> given{file, "zero_optimization.stage=0"};
    const Remedies found = find_remedies(given, options_for("deepspeed"));
    CHECK(found.remedies.size() == 2);
    CHECK(found.patch.empty());
}

TEST_CASE("settings of a command are listed, but a script gets no patch", "[import][advice]") {
    const ConfigFolder folder;
    const std::string file =
        folder.write("run.sh", "python train.py --model_name_or_path m --output_dir o --fp16 True --bf16 True\n");
    const Remedies found = find_remedies({&file, 1}, options_for(""));
    CHECK(found.patch.empty());
    CHECK(!found.remaining.empty());
}

TEST_CASE("each patch of the public configs gives the findings that its settings give", "[import][advice]") {
    const fs::path shared = fs::path(MACHEPS_SOURCE_DIR) / "../shared/configs";
    if (!fs::exists(shared)) {
        WARN("skipped: ../shared/configs is absent");
        return;
    }
    const ConfigFolder folder;
    int patches = 0, settings = 0;
    for (const auto& entry : fs::recursive_directory_iterator(shared)) {
        const std::string file = entry.path().string();
        if (!entry.is_regular_file() || !is_config_name(file)) continue;
        ImportOptions options = options_for("");
        Remedies found;
        try {
            found = find_remedies({&file, 1}, options);
        } catch (const Error&) {
            continue;  // not a config of a framework that is read
        }
        settings += static_cast<int>(found.remedies.size());
        if (found.patch.empty()) continue;
        ++patches;
        CAPTURE(file, found.patch);
        // A file that names others finds them only in its own folder.
        const ImportResult original = import_config({&file, 1}, options);
        if (!original.included.empty()) continue;
        const ImportResult result = import_patched(folder, file, found.patch, options);
        CHECK(grave_rules(result.findings) == grave_rules(found.remaining));
    }
    CHECK(patches >= 50);
    CHECK(settings >= patches);
}

}  // namespace remedies_test
