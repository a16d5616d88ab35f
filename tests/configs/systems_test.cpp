// SPDX-License-Identifier: Apache-2.0
// Checks the pages about training systems. docs/systems.md must agree with systems.toml and name every framework. The
// tests that docs/systems-evidence.md and docs/guides.md name must exist. docs/guides.md lists mistakes in published
// guides, and this file disproves each of them. tests/program/systems_page_test.cpp runs the commands of
// docs/guides.md.
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
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

std::string page(const char* name) { return text_of(root / "docs" / name); }

/// Returns the strings and numbers of each system in systems.toml by their keys. Lists of tests are left out. The file
/// says which subset of TOML it uses.
std::vector<std::map<std::string, std::string>> listed_systems() {
    std::vector<std::map<std::string, std::string>> systems;
    std::istringstream lines(text_of(root / "tests/configs/systems.toml"));
    for (std::string line; std::getline(lines, line);) {
        if (line == "[[system]]") systems.emplace_back();
        const auto pair = test::matches(line, R"re(([a-z]+) = (?:"([^"\\]*)"|([0-9]+)))re");
        if (pair && !systems.empty()) systems.back()[(*pair)[1]] = (*pair)[2] + (*pair)[3];
    }
    return systems;
}

/// Returns the row of a system in the tables of a page, or "" if there is none.
std::string row_of(const std::string& text, const std::string& system) {
    const std::string start = "\n| " + system + " |";
    const std::size_t at = text.find(start);
    return at == std::string::npos ? std::string{} : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

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

TEST_CASE("docs/systems-evidence.md and docs/guides.md name only tests that exist", "[systems]") {
    const std::set<std::string> all = names_of_tests();
    CHECK(tests_named_in(page("systems-evidence.md")).size() > 40);
    CHECK(tests_named_in(page("guides.md")).size() > 4);
    for (const char* file : {"systems-evidence.md", "guides.md"}) {
        for (const std::string& name : tests_named_in(page(file))) {
            CAPTURE(file, name);
            CHECK(all.contains(name));
        }
    }
    CHECK(tests_named_in("`\"one\"` and \"two\" and `three`") == std::set<std::string>{"one"});
}

TEST_CASE("docs/systems.md has a row for every system in systems.toml, with the same texts", "[systems]") {
    const std::string text = page("systems.md"), evidence = page("systems-evidence.md");
    const auto systems = listed_systems();
    CHECK(systems.size() >= 34);
    for (const auto& system : systems) {
        CAPTURE(system.at("name"));
        const std::string row = row_of(text, system.at("name"));
        CHECK(std::count(row.begin(), row.end(), '|') == 5);
        CHECK(row.starts_with("| " + system.at("name") + " | " + system.at("read") + " | " + system.at("emulated") +
                              " |"));
        CHECK(row.find(system.at("version")) != std::string::npos);
        CHECK(row.find(system.at("limits")) != std::string::npos);
        CHECK(evidence.find("\n## " + system.at("row") + ". " + system.at("name") + "\n") != std::string::npos);
    }
    // All rows of the four tables except the headings.
    const auto rows = test::all_matches(text, "\n\\| (?!system )[^\n]*");
    CHECK(rows.size() == systems.size());
}

TEST_CASE("docs/systems.md has every framework with an importer, and the versions that the importer knows",
          "[systems]") {
    const std::string text = page("systems.md");
    for (const Framework* each : frameworks()) {
        const std::string title(each->title);
        CAPTURE(title);
        std::string rows;  // the rows whose first cell starts with the title
        for (const auto& system : listed_systems()) {
            if (system.at("name").starts_with(title)) rows += row_of(text, system.at("name")) + "\n";
        }
        CHECK_FALSE(rows.empty());
        const std::string oldest(each->oldest), newest(each->newest);
        if (newest.size() == 1) continue;  // the framework has no releases
        const std::string versions = oldest == newest ? "version " + newest : "versions " + oldest + " to " + newest;
        CHECK(rows.find(versions) != std::string::npos);
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

TEST_CASE("an overflow lowers the loss scale at any step, and an interval without overflow raises it", "[systems]") {
    // An overflow lowers the scale at any point of the growth interval. Only a complete interval without overflow
    // raises the scale.
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

TEST_CASE("wrong statements of published guides about frameworks are disproved", "[systems]") {
    // No dtype is called float8_e4m3. If Transformer Engine multiplies in fp8, the parameters stay in fp32.
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
