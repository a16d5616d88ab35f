// SPDX-License-Identifier: Apache-2.0
// Tests `macheps train --stress`: an fp16 config that can overflow is not reported as safe. Also tests that tokens of
// the user's own data have weight 1.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace train_stress_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

// Arguments of Transformers. Users reported a loss of 0 or NaN after they had switched a model to fp16 in this way.
constexpr const char* fp16_config =
    "output_dir: out\nfp16: true\nlearning_rate: 2.0e-5\nper_device_train_batch_size: 2\n";
constexpr const char* bf16_config = "output_dir: out\nbf16: true\nfp16: false\nlearning_rate: 2.0e-5\n";

constexpr const char* small =
    "train --steps 12 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --warmup 1 --seeds 0,1 "
    "-q ";

/// Returns the row of a policy in the summary that `train --json` prints.
json row_of(const json& outcome, const std::string& policy) {
    for (const json& row : outcome.at("summary").at("policies")) {
        if (row.at("policy") == policy) return row;
    }
    FAIL("no policy " + policy);
    return {};
}

json trained(const std::string& options) {
    const Outcome outcome = run(small + options + " --json");
    CAPTURE(options, outcome.err);
    REQUIRE(outcome.code == 0);
    return json::parse(outcome.out);
}

std::vector<std::string> policies_of(const json& outcome) {
    std::vector<std::string> names;
    for (const json& row : outcome.at("summary").at("policies")) names.push_back(row.at("policy"));
    return names;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(
    "train --config: an fp16 config that can overflow is not called safe; fp32 and bf16 pass the same stress test",
    "[program][stress]") {
    write("half.yaml", fp16_config);
    write("brain.yaml", bf16_config);
    for (const std::string model : {"gpt2", "llama"}) {
        CAPTURE(model);
        const json all = trained("--config half.yaml brain.yaml --model " + model + " --force --out run");
        REQUIRE(policies_of(all) ==
                std::vector<std::string>{"fp32", "half", "brain", "fp32+outliers", "half+outliers", "brain+outliers"});
        const json plain = row_of(all, "half"), stressed = row_of(all, "half+outliers");
        CHECK(has(plain.at("range"), "of 65504 (fp16); this cannot rule out an overflow in a pretrained model"));
        CHECK(stressed.at("verdict") == "diverged");
        CHECK(stressed.at("stress") == "outliers=2^11");
        CHECK(plain.at("stress").is_null());
        CHECK(stressed.at("range") ==
              "range: forward values overflowed fp16 (largest 65504), first in block.0.mlp.act:forward.out at step 0");
        CHECK(has(stressed.at("sentence"), "stressed with outliers=2^11"));
        for (const std::string name : {"fp32", "brain"}) {
            CAPTURE(name);
            const json other = row_of(all, name + "+outliers"), same = row_of(all, name);
            CHECK(other.at("verdict") != "diverged");
            CHECK(other.at("loss") == same.at("loss"));  // the stress changes no bit
            CHECK(other.at("forward_overflow_step").is_null());
        }
        const std::string page = contents(scratch() / "run/report.html");
        CHECK(has(page, "half diverged") == false);
        CHECK(has(page, "half (") == false);
        CHECK(has(page, "half+outliers ("));  // the reason follows
        CHECK(has(page, ") diverged"));
        CHECK(has(page, "were stressed with outliers=2^11"));
        CHECK(has(contents(scratch() / "run/runs.csv"), "outliers=2^11"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("train --stress: a config with a format of narrow range is stressed by default, other policies on request",
          "[program][stress]") {
    write("half.yaml", fp16_config);
    write("brain.yaml", bf16_config);
    using Names = std::vector<std::string>;
    CHECK(policies_of(trained("--config brain.yaml --out a")) == Names{"fp32", "brain"});
    CHECK(policies_of(trained("--config half.yaml --stress none --out b")) == Names{"fp32", "half"});
    CHECK(policies_of(trained("--policy amp-fp16 --out c")) == Names{"fp32", "amp-fp16"});
    CHECK(policies_of(trained("--policy amp-bf16 --stress outliers=2^11 --out d")) ==
          Names{"fp32", "amp-bf16", "fp32+outliers", "amp-bf16+outliers"});
    // The stressed policy is in a file in another folder, and extends another file that extends a preset.
    fs::create_directories(scratch() / "sub");
    write("sub/base.toml", "extends = \"amp-fp16\"\n[clip]\nmax_norm = 0.5\n");
    write("sub/mine.toml", "extends = \"base.toml\"\n");
    const json files = trained("--policy ./sub/mine.toml --stress outliers=2^11 --out e");
    CHECK(row_of(files, "mine+outliers").at("verdict") == "diverged");
    const json manifest = json::parse(contents(scratch() / "e/manifest.json"));
    CHECK(has(manifest.at("policies").at("mine+outliers").at("toml"), "[stress]\noutliers = 2048.0\n"));
    CHECK_FALSE(has(contents(scratch() / "a/manifest.json"), "stress"));

    for (const std::string word :
         {"outliers", "outlier=2^11", "outliers=", "outliers=3", "outliers=x", "outliers=2^-1"}) {
        const Outcome outcome = run(small + ("--policy amp-fp16 --out x --stress '" + word + "'"));
        CAPTURE(word, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(has(outcome.err, "--stress"));
    }
    // The plan includes the stressed runs and their time.
    const Outcome plan = run(std::string(small) + "--config half.yaml --dry-run --json --out f");
    const json planned = json::parse(plan.out);
    CHECK(planned.at("runs") == 8);
    CHECK(planned.at("policies").size() == 4);
    CHECK(planned.at("policies").at(3).at("policy") == "half+outliers");
    CHECK(planned.at("policies").at(3).at("seconds") > 0);
    fs::remove_all(scratch());
}

TEST_CASE("train --stress: stressed runs can be repeated and resumed, and do not change the plain runs",
          "[program][stress]") {
    write("half.yaml", fp16_config);
    trained("--config half.yaml --out run");
    trained("--config half.yaml --stress none --out plain");
    fs::remove(scratch() / "half.yaml");
    REQUIRE(run("train --from run/manifest.json -q --out again").code == 0);
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv", "summary.csv"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "run" / name) == contents(scratch() / "again" / name));
    }
    CHECK(run("train --resume run -q").code == 0);
    // With a stress, the plan has additional runs (the stressed ones), and the plain runs do not change. steps.csv
    // therefore contains every line that steps.csv of the training without a stress contains.
    const std::string both = contents(scratch() / "run/steps.csv");
    std::istringstream lines(contents(scratch() / "plain/steps.csv"));
    for (std::string line; std::getline(lines, line);) CHECK(has(both, line + "\n"));
    fs::remove_all(scratch());
}

TEST_CASE("train: tokens of the user's own data have weight 1 unless --token-weight is given", "[program][stress]") {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "The quick brown fox jumps over the lazy dog. ";
    write("own.txt", text);
    const auto weight = [](const std::string& options) {
        const Outcome outcome = run(small + options + " --force --out run");
        CAPTURE(options, outcome.err);
        REQUIRE(outcome.code == 0);
        const json manifest = json::parse(contents(scratch() / "run/manifest.json"));
        const double value = manifest.at("train").at("token_weight");
        CHECK(has(outcome.out, "token weight 2^-12") == (value == 0x1p-12));  // printed with the verdict
        return value;
    };
    CHECK(weight("--policy amp-fp16 --data own.txt") == 1);
    CHECK(weight("--policy amp-fp16 --data own.txt --token-weight 2^-12") == 0x1p-12);
    CHECK(weight("--policy amp-fp16") == 0x1p-12);
    fs::remove_all(scratch());
}

}  // namespace train_stress_test
