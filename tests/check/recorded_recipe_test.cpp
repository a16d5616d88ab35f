// SPDX-License-Identifier: Apache-2.0
// Tests the recipe that make-inputs stores in each file, and the suite that it writes: both give back the declaration.
#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "core/text/json.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/inputs.hpp"
#include "experiments/check/verdicts/suite.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <functional>
#include <map>
#include <set>

namespace recorded_recipe_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;

namespace {

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
    }
    return "accepted";
}

Declaration declared(std::string_view operation, const std::vector<std::pair<std::string, std::string>>& keys) {
    Declaration d{.operation = &find_operation(operation)};
    for (const auto& [key, value] : keys) declare(d, *find_declare_key(key), value, key);
    return d;
}

/// Returns values to declare for a key.
std::vector<std::string> values_of(const DeclareKey& key, const Operation& operation) {
    static const std::map<std::string, std::vector<std::string>, std::less<>> values{
        {"machine", {"sm90.wgmma.fp8+promote128", "any"}},
        {"eps", {"1e-5", "0.00012345678901234567"}},
        {"alpha", {"-0.1"}},
        {"beta", {"0.5"}},
        {"need_bits", {"7.5"}},
        {"slices", {"3"}},
        {"tile", {"128x256"}},
        {"canaries", {"2"}},
        {"functions", {"cuda,exp=4", "cuda.fast"}},
        {"sum", {"fp16.pairwise", "lanes32"}},
        {"block", {"64"}},
        {"ignore_index", {"-100"}},
        {"random_bits", {"8"}},
        {"granularity", {"1x128"}},
        {"given_scale", {"0.02", "encode_scale"}},
        {"scale_rule", {"amax_over_max"}},
    };
    if (key.takes == DeclareKey::Takes::flag) return {"true"};
    if (key.name == "form") {
        std::vector<std::string> forms;
        for (const Form& form : operation.forms) forms.emplace_back(form.name);
        return forms;
    }
    if (key.words != nullptr) {
        const std::vector<std::string_view> words = key.words();
        return {words.begin(), words.end()};
    }
    if (key.value == "FORMAT") return {"bf16", "e2m1fn/packed", "fp32/row", "row", "mx32"};
    const auto found = values.find(key.name);
    return found == values.end() ? std::vector<std::string>{} : found->second;
}

MadeInputs inputs_of(const Declaration& d) {
    MadeInputs inputs{.name = "normal"};
    inputs.request.declaration = d;
    return inputs;
}

}  // namespace

TEST_CASE("a recipe in a file and a suite of make-inputs give back every key of the declaration", "[check][recipes]") {
    std::set<std::string> tested;
    for (const Operation& operation : all_operations()) {
        for (const DeclareKey& key : declare_keys()) {
            if (!key.applies(operation, key)) continue;
            for (const std::string& value : values_of(key, operation)) {
                CAPTURE(operation.name, key.name, value);
                Declaration d{.operation = &operation};
                try {
                    // random_bits has a value only if the rounding is stochastic.
                    if (key.name == "random_bits") d.rounding = Round::stochastic;
                    declare(d, key, value, key.name);
                } catch (const Error&) {
                    continue;  // this operation or key does not take the value
                }
                tested.insert(key.name);
                const RecordedRecipe recipe = parse_recorded_recipe(recipe_text(inputs_of(d)), "in.npz");
                CHECK(recipe.declaration.operation == d.operation);
                CHECK(declared_json(recipe.declaration) == declared_json(d));
                CHECK_FALSE(contradiction_of(recipe.declaration, d));
                const Suite suite = parse_suite(suite_text(d, "npz", {"normal"}), "in/suite.toml");
                REQUIRE(suite.checks.size() == 1);
                CHECK(declared_json(suite.checks[0].declaration) == declared_json(d));
                REQUIRE(suite.checks[0].files.size() == 2);
                CHECK(suite.checks[0].files[0].text == "in/*.npz");
                CHECK(suite.checks[0].files[1].text == "in/normal.npz");
            }
        }
    }
    for (const DeclareKey& key : declare_keys()) {
        CAPTURE(key.name);
        CHECK(tested.contains(key.name));
    }
}

TEST_CASE("a declaration contradicts a recipe only in the keys that the recipe declares", "[check][recipes]") {
    const auto contradiction = [](const Declaration& recorded, const Declaration& given) {
        const auto found = contradiction_of(recorded, given);
        return found ? found->key + " " + found->recorded + " " + found->given : "none";
    };
    const Declaration recorded = declared("gemm", {{"a", "bf16"}, {"machine", "sm80.mma.bf16"}});
    CHECK(contradiction(recorded, recorded) == "none");
    CHECK(contradiction(recorded, declared("gemm", {{"a", "bf16"}, {"machine", "any"}})) ==
          "machine sm80.mma.bf16 any");
    CHECK(contradiction(recorded, declared("gemm", {{"machine", "sm80.mma.bf16"}})) == "a bf16 nothing");
    // The recipe declares neither alpha nor the format of out.
    CHECK(contradiction(
              recorded,
              declared("gemm", {{"a", "bf16"}, {"machine", "sm80.mma.bf16"}, {"alpha", "2"}, {"out", "fp16"}})) ==
          "none");
    // The shape of the scales, which the format of a declares, is another key.
    CHECK(contradiction(declared("gemm", {{"a", "e4m3fn/row"}}), declared("gemm", {{"a", "e4m3fn/tensor"}})) ==
          "a_scale row tensor");
}

TEST_CASE("a damaged recipe is an error that names the file and the problem", "[check][recipes]") {
    const auto parsed = [](const std::string& text) {
        return error_of([&] { parse_recorded_recipe(text, "in.npz"); });
    };
    CHECK(holds(parsed(R"({"op": "gem", "declared": {}})"), "3 in.npz: the recipe in this file cannot be used: "));
    CHECK(holds(parsed(R"({"op": "gemm", "declared": {"colour": 1}})"), "it has the unknown key 'colour'"));
    CHECK(holds(parsed(R"({"op": "gemm", "declared": {"eps": 1}})"), "gemm has no eps"));
    CHECK(holds(parsed(R"({"op": "gemm"})"), "cannot be used"));
    CHECK(holds(parsed(R"({"op": "gemm", "declared")"), "cannot be used"));
    // A recipe of an older version may have fewer keys.
    CHECK(parsed(R"({"recipe": "normal", "op": "gemm", "declared": {"a": "bf16"}, "out": [4, 4], "seed": 7})") ==
          "accepted");
}

TEST_CASE("a recipe is found in .npz and .safetensors files, and other arrays of this name are not recipes",
          "[check][recipes]") {
    const TemporaryFolder folder;
    const InputPlan plan =
        parse_plans("[recipe]\nop = 'sum'\nx = 'bf16'\nrows = 4\ncolumns = 6\ninputs = ['normal']\n", "r.toml").front();
    const MadeInputs made = all_inputs(plan).front();
    const std::vector<files::StoredArray> arrays = stored_inputs(made);
    publish(folder / "with.npz", npz_of(arrays, recipe_text(made)));
    publish(folder / "with.safetensors", safetensors_of(arrays, recipe_text(made)));
    publish(folder / "other.npz", npz_of(arrays, "flour, eggs"));
    for (const char* name : {"with.npz", "with.safetensors"}) {
        const auto recipe = recorded_recipe((folder / name).string());
        REQUIRE(recipe);
        CHECK(recipe->file == (folder / name).string());
        CHECK(declared_json(recipe->declaration) == declared_json(plan.request.declaration));
    }
    CHECK_FALSE(recorded_recipe((folder / "other.npz").string()));
    CHECK_FALSE(recorded_recipe((folder / "with.npz").string() + ":bf16[2]"));  // a file of bare numbers
    CHECK(error_of([&] { recorded_recipe((folder / "none.npz").string()); }).starts_with("3 "));
}

}  // namespace recorded_recipe_test
