// SPDX-License-Identifier: Apache-2.0
// Tests what an import says about every name that Transformers, LLaMA-Factory and Axolotl have for an optimiser. The
// expected results were written from the sources of the frameworks and of bitsandbytes and torchao, not from the table
// of the importers.
#include "experiments/configs/memory/memory_recipe.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/policy/memory_bytes.hpp"
#include "tests/configs/import_case.hpp"

#include <regex>
#include <set>

namespace optimiser_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

/// What an import must say about a name. `says` contains N if another algorithm is not emulated, M if the format of the
/// moments is not emulated, E if the framework refuses the name, and is "-" if the import says nothing. `state` is the
/// format of the moments of bf16 weights.
struct Expected {
    const char *name, *transformers, *axolotl, *state;
};

constexpr Expected names[] = {
    {"adamw_torch", "-", "-", "B"},
    {"adamw_torch_fused", "-", "-", "B"},
    {"adamw_torch_xla", "-", "-", "B"},
    {"adamw_torch_npu_fused", "-", "-", "B"},
    {"adamw_apex_fused", "E", "E", ""},  // removed in 5.8
    {"adamw_hf", "E", "E", ""},          // removed in 4.50
    {"adafactor", "N", "N", "B"},
    {"adamw_anyprecision", "N", "N", "F"},
    {"adamw_torch_4bit", "M", "M", "int4"},
    {"adamw_torch_8bit", "M", "M", "int8"},
    {"ademamix", "N", "N", "F"},
    {"sgd", "-", "-", "none"},
    {"adagrad", "N", "N", "B"},
    {"adamw_bnb_8bit", "M", "M", "int8"},
    {"adamw_8bit", "M", "M", "int8"},
    {"ademamix_8bit", "MN", "MN", "int8"},
    {"lion_8bit", "MN", "MN", "int8"},
    {"lion_32bit", "N", "N", "F"},
    {"paged_adamw_32bit", "-", "-", "F"},
    {"paged_adamw_8bit", "M", "M", "int8"},
    {"paged_ademamix_32bit", "N", "N", "F"},
    {"paged_ademamix_8bit", "MN", "MN", "int8"},
    {"paged_lion_32bit", "N", "N", "F"},
    {"paged_lion_8bit", "MN", "MN", "int8"},
    {"rmsprop", "N", "N", "B"},
    {"rmsprop_bnb", "N", "N", "F"},
    {"rmsprop_bnb_8bit", "MN", "MN", "int8"},
    {"rmsprop_bnb_32bit", "N", "N", "F"},
    {"galore_adamw", "N", "N", "B"},
    {"galore_adamw_8bit", "MN", "MN", "int8"},
    {"galore_adafactor", "N", "N", "B"},
    {"galore_adamw_layerwise", "N", "N", "B"},
    {"galore_adamw_8bit_layerwise", "MN", "MN", "int8"},
    {"galore_adafactor_layerwise", "N", "N", "B"},
    {"lomo", "N", "N", "B"},
    {"adalomo", "N", "N", "B"},
    {"grokadamw", "N", "N", "B"},
    {"schedule_free_radam", "N", "N", "B"},
    {"schedule_free_adamw", "N", "N", "B"},
    {"schedule_free_sgd", "N", "N", "B"},
    {"apollo_adamw", "N", "N", "B"},
    {"apollo_adamw_layerwise", "N", "N", "B"},
    {"stable_adamw", "N", "N", "B"},
    {"optimi_adamw", "E", "N", "B"},
    {"ao_adamw_8bit", "E", "E", ""},
    {"ao_adamw_4bit", "E", "E", ""},
    {"ao_adamw_fp8", "E", "M", "fp8"},
    {"adopt_adamw", "E", "N", "B"},
    {"came_pytorch", "E", "N", "B"},
    {"muon", "E", "N", "B"},
    {"dion", "E", "N", "B"},
    {"sinkgd", "E", "N", "B"},
    {"flash_adamw", "E", "N", "B"},
    {"flash_adam", "E", "N", "B"},
    {"flash_sgd", "E", "N", "B"},
    {"flash_sgdw", "E", "N", "B"},
    {"flash_lion", "E", "N", "B"},
    {"q_galore_adamw8bit", "E", "MN", "int8"},
    {"nonsense_name", "E", "E", ""},
};

/// An importer with a config that trains bf16 weights without DeepSpeed and FSDP.
struct Importer {
    const char *framework, *config, *versions;
    std::string_view says(const Expected& name) const {
        return std::string_view(framework) == "axolotl" ? name.axolotl : name.transformers;
    }
};
constexpr Importer importers[] = {
    {"transformers", "bf16: true\noptim: ", "transformers=5.14.1,torch=2.9.1"},
    {"llamafactory",
     "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\npure_bf16: true\noptim: ",
     "llamafactory=0.9.5,transformers=5.14.1,torch=2.9.1"},
    {"axolotl", "base_model: a\nbf16: true\noptimizer: ", "axolotl=0.18.0,transformers=5.14.1,torch=2.9.1"},
};

ImportResult import_name(const Importer& importer, const std::string& name) {
    return import_text(
        importer.config + name + "\n",
        {.framework = importer.framework, .versions = importer.versions, .device = "h100", .checkpoint = "bf16"});
}

/// Returns what the import says about the optimiser, in the letters of Expected.
std::string said_by(const ImportResult& result) {
    std::string moments, kind;
    for (const Finding& one : result.findings) {
        if (one.rule.ends_with("/unknown-optimiser") || one.rule.ends_with("/optimiser-raises")) return "E";
        if (!one.rule.ends_with("/not-emulated")) continue;
        CHECK_FALSE(one.not_emulated.empty());
        if (one.message.find(" moments are not emulated") != std::string::npos) moments = "M";
        if (one.message.find("the optimiser ") != std::string::npos) kind = "N";
    }
    return moments + kind == "" ? "-" : moments + kind;
}

/// Returns the first column of the table whose heading contains `heading`, without backquotes.
std::set<std::string> names_in(const std::filesystem::path& file, const std::string& heading) {
    std::ifstream text(file);
    std::set<std::string> found;
    bool is_inside = false;
    static const std::regex first_cell("^\\| `([A-Za-z0-9_]+)` \\|.*");
    for (std::string line; std::getline(text, line);) {
        if (line.starts_with("## ")) is_inside = line.find(heading) != std::string::npos;
        std::smatch match;
        if (is_inside && std::regex_match(line, match, first_cell)) found.insert(match[1]);
    }
    return found;
}

}  // namespace

TEST_CASE("every name of an optimiser is emulated, reported as not emulated, or refused as its framework refuses it",
          "[import][optimiser]") {
    for (const Importer& importer : importers) {
        for (const Expected& name : names) {
            CAPTURE(importer.framework, name.name);
            const ImportResult result = import_name(importer, name.name);
            CHECK(said_by(result) == importer.says(name));
            CHECK(result.refused() == (importer.says(name) == "E"));
            if (!result.refused()) CHECK(field_of(result, "opt_state") == name.state);
        }
    }
}

TEST_CASE(
    "the table of optimisers has every name that this test expects, and this test expects every name of the table",
    "[import][optimiser]") {
    std::set<std::string> expected, table;
    for (const Expected& name : names) expected.insert(name.name);
    for (const OptimiserRow& row : optimisers()) {
        CAPTURE(row.name, row.kind);
        CHECK(find_optimiser_kind(row.kind) != nullptr);
        if (row.framework == "transformers" || row.framework == "axolotl") table.emplace(row.name);
    }
    expected.erase("nonsense_name");
    for (const char* later : {"adamc", "polora"}) table.erase(later);  // of Axolotl 0.19
    CHECK(expected == table);
}

TEST_CASE("the published list of optimiser names has no name that this test leaves out", "[import][optimiser]") {
    const std::filesystem::path list = shared_folder() / "configs/optimisers-and-adapters.md";
    if (shared_folder().empty() || !std::filesystem::exists(list)) SKIP_TEST("no list of optimiser names");
    const std::set<std::string> listed = names_in(list, "Every name that a framework knows");
    CHECK(listed.size() >= 43);
    std::set<std::string> expected;
    for (const Expected& name : names) expected.insert(name.name);
    for (const std::string& name : listed) {
        CAPTURE(name);
        CHECK(expected.contains(name));
    }
}

TEST_CASE("a name is known from the release that added it to the release before the one that removed it",
          "[import][optimiser]") {
    struct Case {
        const char *framework, *name, *versions;
        bool is_refused;
    };
    constexpr Case cases[] = {
        {"transformers", "adamw_hf", "transformers=4.49.0", false},
        {"transformers", "adamw_hf", "transformers=4.50.0", true},
        {"transformers", "adamw_apex_fused", "transformers=5.7.0", false},
        {"transformers", "adamw_apex_fused", "transformers=5.8.0", true},
        {"transformers", "adamw_torch_8bit", "transformers=4.48.0", true},
        {"transformers", "adamw_torch_8bit", "transformers=4.49.0", false},
        {"transformers", "stable_adamw", "transformers=4.53.3", true},
        {"transformers", "stable_adamw", "transformers=4.54.0", false},
        {"transformers", "lomo", "transformers=4.41.2", true},
        {"transformers", "lomo", "transformers=4.42.0", false},
        {"axolotl", "ao_adamw_8bit", "axolotl=0.11.0", false},
        {"axolotl", "ao_adamw_8bit", "axolotl=0.12.0", true},
        {"axolotl", "dion", "axolotl=0.11.0", true},
        {"axolotl", "dion", "axolotl=0.12.0", false},
        {"axolotl", "sinkgd", "axolotl=0.17.0", true},
        {"axolotl", "sinkgd", "axolotl=0.18.0", false},
    };
    for (const Case& one : cases) {
        CAPTURE(one.framework, one.name, one.versions);
        const bool is_axolotl = std::string_view(one.framework) == "axolotl";
        const ImportResult result =
            import_text(fmt::format("{}: {}\n{}", is_axolotl ? "optimizer" : "optim", one.name,
                                    is_axolotl ? "base_model: a\nbf16: true" : "bf16: true"),
                        {.framework = one.framework, .versions = one.versions, .checkpoint = "fp32"});
        CHECK((said_by(result) == "E") == one.is_refused);
    }
}

TEST_CASE("an unknown optimiser is refused with its release and the nearest name", "[import][optimiser]") {
    const auto refused = [](const std::string& name, const char* versions) {
        const ImportResult result =
            import_text("bf16: true\noptim: " + name, {.framework = "transformers", .versions = versions});
        const Finding* found = find_rule(result, "transformers/unknown-optimiser", 'E');
        REQUIRE(found != nullptr);
        return found->message + " | " + found->instead;
    };
    CHECK(refused("adamw_torch_fuse", "transformers=5.14.1") ==
          "'adamw_torch_fuse' is not the name of an optimiser of Transformers: training raises ValueError | "
          "adamw_torch_fused");
    CHECK(refused("lomo", "transformers=4.41.2").find("transformers 4.41.2 is older than 4.42, which added it") !=
          std::string::npos);
    CHECK(refused("adamw_hf", "transformers=5.14.1").find("4.50 removed it, and this is transformers 5.14.1") !=
          std::string::npos);
}

TEST_CASE("the SGD of Transformers has no momentum, and adds the decay to the gradient", "[import][optimiser]") {
    const ImportResult result = import_text("bf16: true\noptim: sgd\nlearning_rate: 0.1\nweight_decay: 0.01",
                                            {.framework = "transformers", .versions = "torch=2.9.1"});
    CHECK(field_of(result, "optimizer") == "sgd lr=0.1 momentum=0 weight_decay=0.01 rate_waits=true");
    CHECK(result.policy.find("kind = \"sgd\"\nmomentum = 0.0\nweight_decay = 0.01\n") != std::string::npos);
    const ImportResult engine = import_text(
        R"({"bf16": {"enabled": true}, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.8}}})",
        {.framework = "deepspeed"});
    CHECK(field_of(engine, "optimizer").starts_with("sgd lr=0.1 momentum=0.8 "));
    CHECK(field_of(engine, "opt_state") == "F");
    const ImportResult none =
        import_text(R"({"bf16": {"enabled": true}, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})",
                    {.framework = "deepspeed"});
    CHECK(field_of(none, "opt_state") == "none");
}

TEST_CASE("bytes of moments follow the number and the format of the optimiser's moments", "[import][optimiser]") {
    const auto bytes = [](const std::string& name) {
        return memory_recipe_of(import_name(importers[0], name)).trained.moments;
    };
    CHECK(bytes("adamw_torch") == 4);        // two in bf16
    CHECK(bytes("paged_adamw_32bit") == 8);  // two in fp32
    CHECK(bytes("lion_32bit") == 4);         // one in fp32
    CHECK(bytes("lion_8bit") == bytes("adamw_8bit") / 2);
    CHECK(bytes("adamw_8bit") > 2);  // two numbers of 8 bits, and the scales of their blocks
    CHECK(bytes("adamw_8bit") < 2.1);
    CHECK(bytes("sgd") == 0);
    CHECK(bytes("adafactor") == 0);
}

TEST_CASE("DeepSpeed's Adam is AdamW unless adam_w_mode is false", "[import][optimiser]") {
    const auto kind = [](const char* type, const char* mode) {
        const ImportResult result = import_text(
            fmt::format(R"({{"bf16": {{"enabled": true}}, "optimizer": {{"type": "{}", "params": {{"lr": 1e-3{}}}}}}})",
                        type, mode),
            {.framework = "deepspeed"});
        return fields_of(result, {"optimizer"});
    };
    CHECK(kind("Adam", "") == "optimizer=adamw");
    CHECK(kind("Adam", R"(, "adam_w_mode": true)") == "optimizer=adamw");
    CHECK(kind("Adam", R"(, "adam_w_mode": false)") == "optimizer=adam");
    CHECK(kind("AdamW", R"(, "adam_w_mode": false)") == "optimizer=adamw");
    CHECK(kind("Lamb", "") == "optimizer=lamb");
}

TEST_CASE("quantised moments are reported under DeepSpeed too, unless the section has its own optimiser",
          "[import][optimiser]") {
    const auto state = [](const std::string& text, const char* framework) {
        return field_of(import_text(text, {.framework = framework}), "opt_state");
    };
    const std::string plain = "deepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: true}}\n",
                      own =
                          "deepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: true}, optimizer: {type: AdamW, "
                          "params: {lr: 1.0e-3}}}\n";
    CHECK(state(plain + "bf16: true\noptim: adamw_bnb_8bit", "transformers") == "int8");
    CHECK(state(own + "bf16: true\noptim: adamw_bnb_8bit", "transformers") == "F");
    CHECK(state(plain + "bf16: true\noptim: adamw_torch", "transformers") == "F");
    CHECK(state(plain + "base_model: a\nbf16: true\noptimizer: adamw_torch_8bit", "axolotl") == "int8");
    CHECK(state(own + "base_model: a\nbf16: true\noptimizer: adamw_torch_8bit", "axolotl") == "F");
    const std::string factory =
        "model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\nbf16: true\n";
    CHECK(state(factory + plain + "optim: paged_adamw_8bit", "llamafactory") == "int8");
    CHECK(state(factory + own + "optim: paged_adamw_8bit", "llamafactory") == "F");
}

TEST_CASE("GaLore and APOLLO of LLaMA-Factory raise with the optimiser that is the default since Transformers 4.54",
          "[import][optimiser]") {
    struct Case {
        const char *keys, *versions;
        bool raises;
    };
    constexpr Case cases[] = {
        {"use_galore: true", "transformers=4.54.0,torch=2.8.0", true},
        {"use_galore: true", "transformers=4.53.3,torch=2.8.0", false},
        {"use_galore: true", "transformers=4.54.0,torch=2.7.1", false},
        {"use_galore: true\noptim: adamw_torch", "transformers=4.54.0,torch=2.8.0", false},
        {"use_galore: true\noptim: adamw_8bit", "transformers=4.54.0,torch=2.8.0", false},
        {"use_galore: true\noptim: lion_32bit", "transformers=4.53.3,torch=2.8.0", true},
        {"use_apollo: true", "transformers=4.54.0,torch=2.8.0", true},
        {"use_apollo: true\noptim: adamw_torch", "transformers=4.54.0,torch=2.8.0", false},
        {"use_apollo: true\noptim: adamw_8bit", "transformers=4.54.0,torch=2.8.0", true},
        {"use_badam: true", "transformers=4.54.0,torch=2.8.0", false},
    };
    for (const Case& one : cases) {
        CAPTURE(one.keys, one.versions);
        const ImportResult result = import_text(
            fmt::format("model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\npure_bf16: true\n{}",
                        one.keys),
            {.framework = "llamafactory", .versions = one.versions, .checkpoint = "bf16"});
        CHECK((find_rule(result, "llamafactory/galore-optim", 'E') != nullptr) == one.raises);
        CHECK(result.refused() == one.raises);
    }
}

TEST_CASE("the keys of LLaMA-Factory that replace the optimiser are not emulated", "[import][optimiser]") {
    struct Case {
        const char *keys, *title;
    };
    constexpr Case cases[] = {
        {"use_galore: true", "GaLore"},
        {"use_apollo: true", "APOLLO"},
        {"use_badam: true", "BAdam"},
        {"use_adam_mini: true", "Adam-mini"},
        {"use_muon: true", "Muon"},
        {"loraplus_lr_ratio: 16.0", "LoRA+"},
        {"use_adam_mini: false\nuse_muon: false", nullptr},
    };
    for (const Case& one : cases) {
        CAPTURE(one.keys);
        const ImportResult result = import_text(
            fmt::format("model_name_or_path: a\nstage: sft\ndo_train: true\nfinetuning_type: full\nbf16: true\noptim: "
                        "adamw_torch\n{}",
                        one.keys),
            {.framework = "llamafactory", .versions = "transformers=4.57.1"});
        const std::vector<std::string> said = not_emulated_in(result.findings);
        if (one.title == nullptr) {
            CHECK(said.empty());
        } else {
            CHECK(said == std::vector<std::string>{
                              fmt::format("the optimiser {} is not emulated: the policy uses AdamW", one.title)});
        }
    }
}

// PyTorch 2.9.1 gives these results on a CPU, for one step of Adam with the rate 1e-3 on fp16 weights of 0.5: -7.9 for
// the gradient 1e-3 and eps 1e-7, which is 8400 times the rate, and 0.46 for the gradient 4e-3 and eps 1e-4.
TEST_CASE("the effect of a small eps in fp16 is the largest update in units of the learning rate", "[import]") {
    CHECK(fp16_eps_is_zero(0x1p-25) != "");
    CHECK(fp16_eps_is_zero(0x1.004p-25) == "");
    CHECK(fp16_eps_is_small(0x1p-25) == "");
    // 0.005459 is the square root of 2^-25 / 0.001, and 1e-7 is rounded to 2^-23: 0.005459 x 2^23 = 45795.
    CHECK(fp16_eps_is_small(1e-7).find("up to 45795 times") != std::string::npos);
    // 1e-6 is rounded to 17 units of 2^-24: 0.005459 x 2^24 / 17 = 5388.
    CHECK(fp16_eps_is_small(1e-6).find("up to 5388 times") != std::string::npos);
    CHECK(fp16_eps_is_small(fp16_safe_eps) == "");
}

}  // namespace optimiser_test
