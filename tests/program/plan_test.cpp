// SPDX-License-Identifier: Apache-2.0
// Tests that `macheps train --dry-run` answers within seconds, even if one step of the model takes long.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <sys/resource.h>

#include <string>

namespace plan_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

json plan(const std::string& arguments) {
    const Outcome outcome = run("train --dry-run --json --out run " + arguments);
    CAPTURE(arguments, outcome.err);
    REQUIRE(outcome.code == 0);
    return json::parse(outcome.out);
}

double seconds_of_children() {
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

TEST_CASE("if steps are long, --dry-run times shorter steps, so it needs only seconds", "[program]") {
    const double before = seconds_of_children();
    const json base = plan("--size base");
    CHECK(seconds_of_children() - before < 12);  // processor time; it would be 117 s if whole steps were timed
    CHECK(base["policies"].size() == 8);
    CHECK(base["timed_tokens"] > 0);
    CHECK(base["timed_tokens"] <= 64);  // a whole step has 1024 tokens
    CHECK(base["parameters"] == 10844160);
    CHECK(base["tokens"] == 300 * 4 * 256);
    // If steps are short, whole steps are timed.
    const json tiny = plan("--policy fp32 --seeds 0");
    CHECK(tiny["timed_tokens"] == 0);
    // This policy names block 5. --dry-run must accept the policy, so it must not time a model with fewer layers.
    write("mine.toml",
          "name = \"mine\"\nextends = \"amp-bf16\"\n[[rule]]\nsites = \"block.5.mlp.up\"\nforward.a = \"e4m3fn\"\n");
    const json deep = plan("--size base --policy ./mine.toml --seeds 0");
    CHECK(deep["policies"].size() == 2);
    CHECK(deep["timed_tokens"] > 0);
    fs::remove_all(scratch());
}

TEST_CASE("a plan estimated from short steps is close to a plan from whole steps", "[program][slow]") {
    // A step of this model has 512 tokens. If the plan has one policy, whole steps are timed. If it has many policies,
    // steps with fewer tokens and layers are timed instead.
    const std::string model = "--seeds 0 --layers 4 --width 256 --heads 4 --context 128 --batch 4 --policy ";
    const json whole = plan(model + "fp32");
    const json scaled = plan(model + "fp32,tf32,amp-bf16,pure-bf16,pure-bf16-sr,amp-fp16,fp16-noscale,fp8-tensorwise");
    REQUIRE(whole["timed_tokens"] == 0);
    REQUIRE(scaled["timed_tokens"] > 0);
    const auto step = [](const json& plan) { return plan["policies"][0]["step_seconds"].get<double>(); };
    CHECK(step(scaled) > step(whole) / 3);
    CHECK(step(scaled) < step(whole) * 3);
    fs::remove_all(scratch());
}

}  // namespace plan_test
