// SPDX-License-Identifier: Apache-2.0
// Tests the verb `macheps diagnose`: the most likely cause of what configs, logs and run directories show.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

namespace diagnose_causes_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr const char* large_scale =
    "{\n  \"fp16\": {\n    \"enabled\": true,\n    \"initial_scale_power\": 32\n  },\n"
    "  \"zero_optimization\": {\"stage\": 1}\n}\n";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A log of DeepSpeed in which the first steps overflow.
std::string overflow_log() {
    std::string text;
    for (int i = 0; i < 8; ++i) {
        text += fmt::format(
            "[2025-01-01 00:00:0{},000] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping "
            "step. Attempted loss scale: {}, reducing to {}\n",
            i, 1LL << (32 - i), 1LL << (31 - i));
        text += fmt::format("steps: {} loss: 10.{} iter time (s): 1.0 samples/sec: 1.0\n", i + 1, 90 - i);
    }
    return text;
}

/// A trainer_state.json whose loss becomes NaN at step 70.
std::string nan_state() {
    std::string rows;
    for (int step = 10; step <= 120; step += 10) {
        const std::string loss = step < 70 ? fmt::format("{}", 3.0 - step * 0.01) : "NaN";
        rows +=
            fmt::format("{}{{\"epoch\": {}, \"grad_norm\": {}, \"learning_rate\": 1e-4, \"loss\": {}, \"step\": {}}}",
                        rows.empty() ? "" : ", ", step * 0.01, step < 70 ? "1.5" : "NaN", loss, step);
    }
    return fmt::format("{{\"global_step\": 120, \"log_history\": [{}]}}", rows);
}

}  // namespace

TEST_CASE("diagnose: a config alone gives its gravest finding, three checks and a patch", "[program][diagnose]") {
    write("ds.json", large_scale);
    const Outcome outcome = run("diagnose ds.json");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "gravest problem of the config (possible): the loss scale starts at 2^32"));
    CHECK(contains(outcome.out, "ds.json:4:"));
    CHECK(contains(outcome.out, "  3. "));
    CHECK(contains(outcome.out, "write:\n  fp16.initial_scale_power=16\n"));
    CHECK(contains(outcome.out, "-    \"initial_scale_power\": 32\n+    \"initial_scale_power\": 16\n"));
    CHECK(contains(outcome.out, "it ends\n  deepspeed/large-initial-scale: "));
    CHECK(contains(outcome.out, "macheps train --config ds.json --policy amp-bf16 --png picture.png"));
    write("good.yaml", "bf16: true\nlogging_nan_inf_filter: false\noutput_dir: out\n");
    const Outcome good = run("diagnose good.yaml --framework transformers");
    CHECK(good.code == 1);
    CHECK(contains(good.out, "no known problem"));
}

TEST_CASE("diagnose: a cause that the config has comes before the usual causes of a log", "[program][diagnose]") {
    write("ds.json", large_scale);
    write("train.log", overflow_log());
    const json alone = json::parse(run("diagnose train.log --json").out);
    const json both = json::parse(run("diagnose train.log ds.json --json").out);
    CHECK(alone["observations"] == both["observations"]);
    CHECK(both["observations"][0]["diagnosis"] == "overflow-cascade");
    const json& cause = both["causes"][0];
    CHECK(contains(cause["evidence"], "large-initial-scale"));
    CHECK(cause["certainty"] == "likely");
    CHECK(cause["settings"] == json({"fp16.initial_scale_power=16"}));
    CHECK(alone["causes"][0]["certainty"] == "possible");
    CHECK(alone["causes"][0]["settings"].empty());
}

TEST_CASE("diagnose: the gravest finding of a log is explained, and each cause has three checks",
          "[program][diagnose]") {
    write("trainer_state.json", nan_state());
    const json found = json::parse(run("diagnose trainer_state.json --json").out);
    CHECK(contains(found["observations"][0]["diagnosis"], "nan-in-"));
    CHECK(contains(found["observations"][0]["place"], "step 70"));
    CHECK(found["causes"].size() > 1);
    for (const json& cause : found["causes"]) CHECK(cause["checks"].size() == 3);
}

TEST_CASE("diagnose: a loss that is shown as 0 is explained before the gradient norm beside it",
          "[program][diagnose]") {
    const std::string log = std::string(MACHEPS_SOURCE_DIR) + "/examples/logs/trainer_state.json";
    const json found = json::parse(run("diagnose " + log + " --json").out);
    CHECK(found["observations"][0]["diagnosis"] == "loss-zero-filtered");
    CHECK(contains(found["causes"][0]["text"], "fp16: activations or the loss scale overflow"));
}

TEST_CASE("diagnose: findings of the config that explain a log come first, and all others follow",
          "[program][diagnose]") {
    write("ds.json", "{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 0}}\n");
    write("trainer_state.json", nan_state());
    write("requirements.txt", "deepspeed==0.19.8\n");
    const std::string files = "diagnose trainer_state.json ds.json requirements.txt --checkpoint-dtype bf16";
    const json found = json::parse(run(files + " --json").out);
    CHECK(contains(found["causes"][0]["evidence"], "bf16-checkpoint-in-fp16"));
    CHECK(found["causes"][0]["certainty"] == "likely");
    const auto names_fault = [](const json& cause) {
        return contains(cause["evidence"].get<std::string>(), "ds-z0-fp16-unscaled");
    };
    CHECK(std::count_if(found["causes"].begin(), found["causes"].end(), names_fault) == 1);
    // The fault is known only because the requirements name the release.
    write("requirements.txt", "deepspeed==0.16.5\n");
    const json old = json::parse(run(files + " --json").out);
    CHECK(std::none_of(old["causes"].begin(), old["causes"].end(), names_fault));
}

TEST_CASE("diagnose: an output directory is read through its newest state", "[program][diagnose]") {
    fs::create_directories(scratch() / "out/checkpoint-60");
    fs::create_directories(scratch() / "out/checkpoint-120");
    write("out/checkpoint-60/trainer_state.json", "{\"log_history\": []}");
    write("out/checkpoint-120/trainer_state.json", nan_state());
    const Outcome outcome = run("diagnose out --json");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.err, "out/checkpoint-120/trainer_state.json"));
    fs::create_directories(scratch() / "empty");
    const Outcome empty = run("diagnose empty");
    CHECK(empty.code == 3);
    CHECK(contains(empty.err, "trainer_state.json"));
    CHECK(run("diagnose no-such-file").code == 3);
}

TEST_CASE("diagnose: a run directory of train is explained, with a policy that shows the problem",
          "[program][diagnose]") {
    REQUIRE(run("train --policy pure-bf16 --steps 40 --seeds 0 --size tiny -q -o run").code == 0);
    const Outcome outcome = run("diagnose run");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "run, pure-bf16"));
    CHECK(contains(outcome.out, "macheps report run --png picture.png"));
}

TEST_CASE("diagnose: every example of its help is valid", "[program][diagnose]") {
    write("ds.json", large_scale);
    write("train.log", overflow_log());
    write("trainer_state.json", nan_state());
    write("requirements.txt", "deepspeed==0.19.8\n");
    fs::create_directories(scratch() / "output");
    fs::create_directories(scratch() / "runs");
    write("output/trainer_state.json", nan_state());
    REQUIRE(run("train --policy pure-bf16 --steps 40 --seeds 0 --size tiny -q -o runs/001").code == 0);
    int count = 0;
    const std::string page = run("diagnose --help").out;
    std::istringstream lines(page.substr(0, page.find("Usage:")));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t start = line.find("macheps diagnose");
        if (start == std::string::npos) continue;
        const std::string words = line.substr(start + 8, line.find("  ", start) - start - 8);
        CAPTURE(words);
        CHECK(run(words).code == 0);
        ++count;
    }
    CHECK(count == 5);
}

}  // namespace diagnose_causes_test
