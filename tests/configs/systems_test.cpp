// SPDX-License-Identifier: Apache-2.0
// Checks docs/systems.md: the tests that it names exist, it lists every system and framework, and each mistake of the
// guides that it quotes is disproved. tests/program/systems_page_test.cpp runs its commands.
#include "core/codec.hpp"
#include "core/format.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "experiments/policy/scaler/torch.hpp"
#include "tests/configs/imported.hpp"
#include "tests/regex.hpp"
#include "tests/test.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <string>

namespace systems_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;
using macheps::test::Imported;

namespace {

namespace fs = std::filesystem;

const fs::path root = MACHEPS_SOURCE_DIR;

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string page() { return text_of(root / "docs/systems.md"); }

/// Returns the titles of all test cases, as they are written.
std::set<std::string> names_of_tests() {
    std::set<std::string> names;
    const std::string word = "TEST_CASE(\"";
    for (const auto& entry : fs::recursive_directory_iterator(root / "tests")) {
        if (entry.path().extension() != ".cpp") continue;
        const std::string text = text_of(entry.path());
        for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
            names.insert(text.substr(at + word.size(), text.find('"', at + word.size()) - at - word.size()));
    }
    return names;
}

std::set<std::string> tests_named_in(const std::string& text) {
    std::set<std::string> names;
    for (const test::Match& quoted : test::all_matches(text, "`\"([^`]*)\"`")) names.insert(quoted[1]);
    return names;
}

std::uint32_t fp16_code(float x) { return encode(fp16, x, Round::nearest_even, Overflow::nonsaturate); }

}  // namespace

TEST_CASE("every test that docs/systems.md names exists", "[systems]") {
    const std::set<std::string> all = names_of_tests(), named = tests_named_in(page());
    CHECK(named.size() > 40);
    for (const std::string& name : named) {
        CAPTURE(name);
        CHECK(all.contains(name));
    }
    CHECK(tests_named_in("`\"one\"` and \"two\" and `three`") == std::set<std::string>{"one"});
}

TEST_CASE("docs/systems.md has a row for every system and for every framework with an importer", "[systems]") {
    std::istringstream lines(page());
    int next = 1;
    std::string table;
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("| " + std::to_string(next) + " |")) continue;
        CAPTURE(line);
        CHECK(std::count(line.begin(), line.end(), '|') == 8);
        CHECK_FALSE(tests_named_in(line).empty());
        table += line + "\n";
        ++next;
    }
    CHECK(next == 35);
    for (const Framework* each : frameworks()) {
        std::string title(each->title);
        if (title == "Apex" || title == "PyTorch") title += " ";  // these words also occur in other names
        CAPTURE(title);
        CHECK(table.find(title) != std::string::npos);
        // The versions must be those of the importers, so that no row becomes outdated.
        const std::string version(each->newest);
        if (version.size() > 1) CHECK(table.find(version) != std::string::npos);
    }
}

TEST_CASE("fp16 rounds gradients of at most 2^-25 to zero, and overflows from 65520 on", "[systems]") {
    CHECK(fp16_code(1e-7f) == 2);  // two units of 2^-24, and not 0
    CHECK(decode(fp16, 2u) == 1.1920929e-07f);
    CHECK(fp16_code(0x1p-25f) == 0);  // a tie, and 0 is even
    CHECK(fp16_code(0x1p-25f * 1.0001f) == 1);
    CHECK(fp16_code(0x1p-24f) == 1);
    CHECK(fp16_code(65504.0f) == 0x7bff);
    CHECK(fp16_code(65520.0f) == 0x7c00);
}

TEST_CASE("the scale is checked at every step", "[systems]") {
    // An overflow lowers the scale at any point of the interval. Only a complete interval of clean steps raises it.
    TorchSettings settings;
    settings.growth_interval = 4;
    for (int clean = 0; clean < 4; ++clean) {
        float scale = 1024;
        std::int64_t tracker = 0;
        for (int step = 0; step < clean; ++step) update_scale(settings, scale, tracker, false);
        CAPTURE(clean);
        CHECK(scale == 1024);
        update_scale(settings, scale, tracker, true);
        CHECK(scale == 512);
        CHECK(tracker == 0);
    }
    float scale = 1024;
    std::int64_t tracker = 0;
    for (int step = 0; step < 4; ++step) update_scale(settings, scale, tracker, false);
    CHECK(scale == 2048);
    // Unscaling multiplies by a rounded reciprocal, which gives other bits than a division.
    CHECK(bit_cast<std::uint32_t>(5.0f * inverse_scale(3.0f)) == 0x3FD55556);
    CHECK(bit_cast<std::uint32_t>(5.0f / 3.0f) == 0x3FD55555);
    CHECK(5.0f * inverse_scale(1024.0f) == 5.0f / 1024.0f);
    // A scale preserves a gradient that fp16 would lose, and unscaling restores it exactly.
    CHECK(fp16_code(0x1p-26f) == 0);
    CHECK(decode(fp16, fp16_code(0x1p-26f * 1024)) * inverse_scale(1024.0f) == 0x1p-26f);
}

TEST_CASE("tf32 is off unless a setting turns it on", "[systems]") {
    CHECK(Imported("{per_device_train_batch_size: 4}", {.framework = "transformers"}).field("compute") == "F");
    CHECK(Imported("{tf32: true}", {.framework = "transformers"}).field("compute") == "T");
    CHECK(Imported("{autocast: {enabled: false}}", {.framework = "torch"}).field("compute") == "F");
    CHECK(Imported("{allow_tf32: true}", {.framework = "torch"}).field("compute") == "T");
}

TEST_CASE("wrong statements of the guides about frameworks are disproved", "[systems]") {
    // There is no dtype of this name, and parameters stay fp32 if Transformer Engine multiplies in fp8.
    CHECK(dtype_letter("float8_e4m3") == 0);
    const Imported te("{distributed_type: \"NO\", mixed_precision: fp8, num_processes: 1, fp8_config: {backend: TE}}",
                      {.framework = "accelerate", .device = "h100"});
    CHECK(te.field("store") == "F");
    CHECK(te.part("fp8", "format") != "");
    // Updates below half a unit in the last place are lost: 1e-5 at a weight of 0.02, 1e-4 at 0.5 and 1e-3 at 1. At
    // 0.02, 1e-4 is kept.
    struct Update {
        float weight, change;
        bool is_lost;
    };
    for (const Update& each : {Update{0.02f, 1e-5f, true}, Update{0.02f, 1e-4f, false}, Update{0.5f, 1e-4f, true},
                               Update{1.0f, 1e-3f, true}}) {
        const auto bf16_code = [](float x) { return encode(bf16, x, Round::nearest_even, Overflow::nonsaturate); };
        const float weight = decode(bf16, bf16_code(each.weight));
        CAPTURE(each.weight, each.change);
        CHECK((bf16_code(weight + each.change) == bf16_code(weight)) == each.is_lost);
    }
    CHECK(Imported("{base_model: m, bf16: full}", {.framework = "axolotl"}).has("E axolotl/bf16-full"));
    CHECK(Imported("{base_model: m, fp8: true, torch_compile: true, fsdp_version: 2, fsdp_config: "
                   "{cpu_ram_efficient_loading: true}}",
                   {.framework = "axolotl", .device = "h100"})
              .has("E axolotl/fp8-cpu-ram-efficient-loading"));
    const std::string longspec =
        "torch_dtype: {_target_: general_util.training_utils.return_torch_dtype, dtype: "
        "bfloat16}\nds_cfg: {fp16: {enabled: true, min_loss_scale: 1}}\n";
    const Imported run(longspec, {.framework = "longspec"});
    CHECK(run.field("norm") == "H");
    CHECK(run.field("ckpt") == "false");
    CHECK(run.field("adapter") == "none");
    const Imported fp8(
        "{stage: sft, do_train: true, fp8: true, bf16: true}",
        {.framework = "llamafactory", .device = "h100", .versions = {{"transformers", parse_version("4.57")}}});
    CHECK(fp8.field("compute") == "ao_tensorwise");
    CHECK(fp8.has("C llamafactory/fp8-as-executed"));
    // Autocast and master weights do not reduce the static bytes.
    CHECK(find_memory_recipe("amp")->trained.total() == find_memory_recipe("fp32")->trained.total());
}

}  // namespace systems_test
