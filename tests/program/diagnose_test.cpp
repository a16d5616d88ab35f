// SPDX-License-Identifier: Apache-2.0
// Tests `macheps report --diagnose`: text, JSON, the HTML page, run directories of older versions, and exit codes.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

namespace diagnose_test {

using namespace macheps::test;

TEST_CASE("report --diagnose reports findings as text, as JSON and on the page, and exits with 0",
          "[program][diagnosis]") {
    fs::remove_all(scratch());
    write("high.toml",
          "name = \"high\"\nextends = \"amp-fp16\"\nloss_scaler = { kind = \"torch\", init_scale = 1e15 }\n");
    REQUIRE(run("train --steps 8 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --warmup 1 "
                "--policy ./high.toml --seeds 0 --token-weight 1 --out run")
                .code == 0);
    const Outcome text = run("report run --diagnose");
    CHECK(text.code == 0);
    CHECK(text.out.find("high\n  overflow-cascade (step 0, ") != std::string::npos);
    CHECK(text.out.find("No findings: fp32\n") != std::string::npos);
    CHECK(text.out.starts_with(run("report run").out));  // --diagnose only adds text
    const Outcome json = run("report run --diagnose --json");
    CHECK(json.code == 0);
    const auto document = nlohmann::json::parse(json.out);
    CHECK(document.contains("policies"));
    const auto& findings = document.at("diagnosis").at("findings");
    REQUIRE_FALSE(findings.empty());
    CHECK(findings[0].at("id") == "overflow-cascade");
    CHECK(findings[0].at("policy") == "high");
    CHECK(findings[0].at("step") == 0);
    CHECK(findings[0].at("figures").at("skipped") == 8);
    const std::string sentence = findings[0].at("sentence");
    CHECK(text.out.find(sentence) != std::string::npos);
    CHECK(contents(scratch() / "run/report.html").find(sentence.substr(1)) != std::string::npos);
    CHECK_FALSE(nlohmann::json::parse(run("report run --json").out).contains("diagnosis"));
    CHECK(run("report run --diagnose --csv").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("the diagnosis of a run directory of schema 1 lists the findings that it could not check",
          "[program][diagnosis]") {
    fs::remove_all(scratch());
    fs::copy(fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/run_schema1", scratch() / "old");
    const Outcome outcome = run("report old --diagnose");
    CAPTURE(outcome.out, outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find("Findings of ") != std::string::npos);
    CHECK(outcome.out.find("Not checked: loss-rounded in ") != std::string::npos);
    fs::remove_all(scratch());
}

}  // namespace diagnose_test
