// SPDX-License-Identifier: Apache-2.0
// Tests `macheps check` in CI: suites, JUnit, SARIF, annotations, the job summary, and baselines.
#include "core/text/json.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "tests/check/npz.hpp"
#include "tests/program/program.hpp"
#include "tests/reports/ci_schema.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace check_suite_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

StoredArray floats(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    StoredArray one{.name = name, .where = "test", .type = "<f4", .shape = std::move(shape)};
    one.bytes.resize(values.size() * 4);
    std::memcpy(one.bytes.data(), values.data(), one.bytes.size());
    return one;
}

/// Writes the inputs and outputs of a softmax over 64 rows. Each row has 128 numbers between 0 and `most`. Each output
/// is rounded once, and one output is then multiplied by `factor`.
void write_softmax(const std::string& name, float factor, float most = 8) {
    constexpr std::size_t rows = 64, columns = 128;
    std::mt19937 random(1);
    std::vector<float> x(rows * columns), y(rows * columns);
    for (float& each : x) each = static_cast<float>(random() % 4096) / 4096 * most;
    for (std::size_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::size_t c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(x[r * columns + c]));
        for (std::size_t c = 0; c < columns; ++c)
            y[r * columns + c] = static_cast<float>(std::exp(static_cast<double>(x[r * columns + c])) / sum);
    }
    y[5 * columns + 3] *= factor;
    write(name, npz_of({floats("x", {rows, columns}, x), floats("out", {rows, columns}, y)}));
}

constexpr const char* good_suite =
    "[suite]\nsource = \"src/soft max.cu\"\n\n[[check]]\nname = \"rows\"\nop = \"softmax\"\n"
    "files = \"good*.npz\"\nline = 12\n";
const std::string mixed_suite =
    std::string(good_suite) +
    "\n[[check]]\nname = \"bad <rows> & \\\"more\\\"\"\nop = \"softmax\"\nfiles = \"bad.npz\"\nline = 30\n"
    "\n[[check]]\nname = \"torn\"\nop = \"softmax\"\nfiles = \"torn.npz\"\n"
    "\n[[check]]\nop = \"attention\"\nfiles = \"none.npz\"\n";

void write_mixed() {
    fs::remove_all(scratch());
    write_softmax("good.npz", 1);
    write_softmax("bad.npz", 1.001f);
    write("torn.npz", "PK\x03\x04");
    write("suite.toml", mixed_suite);
}

}  // namespace

TEST_CASE("the worst check of a suite decides the exit code", "[program][check]") {
    write_mixed();
    const Outcome mixed = run("check suite.toml");
    CHECK(mixed.code == 1);
    CHECK(mixed.err.empty());
    CHECK(holds(mixed.out, "pass      rows/good.npz"));
    CHECK(holds(mixed.out, "fail      bad <rows> & \"more\"/bad.npz"));
    CHECK(holds(mixed.out, "input     torn/torn.npz"));
    CHECK(holds(mixed.out, "declined  attention"));
    CHECK(holds(mixed.out, "(5, 3): got "));
    CHECK(holds(mixed.out, "4 inputs: 1 pass, 1 fail, 1 declined, 1 input\n"));
    write("suite.toml", good_suite);
    CHECK(run("check suite.toml").code == 0);
    write_softmax("good2.npz", 1);
    CHECK(holds(run("check suite.toml").out, "2 inputs: 2 pass\n"));
    fs::remove_all(scratch());
}

TEST_CASE("an error in a suite or its command line is one line, and the kind of error decides the exit code",
          "[program][check]") {
    write_mixed();
    write("misspelt.toml", std::string(good_suite) + "functons = 1\n");
    write("nothing.toml", "[[check]]\nop = \"softmax\"\nfiles = \"no*.npz\"\n");
    struct Case {
        const char* arguments;
        int code;
        const char* says;
    };
    for (const Case& c : {
             Case{"misspelt.toml", 2,
                  "misspelt.toml:9:1: unknown key 'functons' of check 'rows' (did you mean 'functions'?"},
             Case{"nothing.toml", 2, "nothing.toml:3:9 (files): no file matches 'no*.npz'"},
             Case{"missing.toml", 3, "missing.toml: cannot read this file"},
             Case{"suite.toml good.npz", 2, "declarations and files of a suite are written in the suite"},
             Case{"suite.toml good.npz --op softmax --saturate", 2, "move good.npz, --op, --saturate into the suite"},
             Case{"suite.toml --saturate", 2, "move --saturate into the suite"},
             Case{"suite.toml misspelt.toml", 2, "several suites are given"},
             Case{"suite.toml --bounds b.npz", 2, "--bounds"},
             Case{"good.npz", 2, "--op"},
             Case{"suite.toml --update-baseline", 2, "--baseline FILE"},
             Case{"suite.toml --baseline missing.lock", 3, "missing.lock"},
             Case{"suite.toml --junit nowhere/j.xml", 5, "nowhere/j.xml"},
         }) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("check ") + c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(holds(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    fs::remove_all(scratch());
}

TEST_CASE("options of the command line apply to every check of a suite", "[program][check]") {
    fs::remove_all(scratch());
    write_softmax("good.npz", 1);
    write("suite.toml", good_suite);
    CHECK(run("check suite.toml --rtol 1 --atol 1").code == 2);  // outputs of zero would satisfy that limit
    CHECK(run("check suite.toml --limit fro=1e-9").code == 1);
    // The check is weak if all numbers are equal, because it cannot detect a kernel that reads a neighbouring row.
    write_softmax("good.npz", 1, 0);
    CHECK(run("check suite.toml").code == 1);
    CHECK(run("check suite.toml --allow-weak --junit junit.xml").code == 0);
    CHECK(check_junit(contents(scratch() / "junit.xml")).at("failures") == "0");
    fs::remove_all(scratch());
}

TEST_CASE("the JUnit XML of a suite is valid and has a test case for each input", "[program][check]") {
    write_mixed();
    CHECK(run("check suite.toml --junit junit.xml").code == 1);
    const Element suite = check_junit(contents(scratch() / "junit.xml"));
    REQUIRE(suite.children.size() == 4);
    CHECK(suite.at("failures") == "1");
    CHECK(suite.at("errors") == "2");
    CHECK(suite.attributes.count("time") == 0);
    const Element &good = suite.children[0], &bad = suite.children[1], &torn = suite.children[2];
    CHECK(good.at("classname") == "softmax");
    CHECK(good.at("name") == "rows/good.npz");
    REQUIRE(good.children.size() == 1);
    std::set<std::string> properties;
    for (const Element& property : good.children[0].children) properties.insert(property.at("name"));
    CHECK(properties == std::set<std::string>{"rho", "z", "blind"});
    CHECK(bad.at("name") == "bad <rows> & \"more\"/bad.npz");
    CHECK(bad.children[1].name == "failure");
    CHECK(bad.children[1].at("type") == "KC020");
    CHECK(holds(bad.children[1].at("message"), "(5, 3): got "));
    CHECK(torn.children[0].name == "error");
    CHECK(torn.children[0].at("type") == "KC090");
    CHECK(suite.children[3].children[0].at("type") == "KC092");
    // Also checks one input without a suite: first a valid file, then a file that cannot be read.
    CHECK(run("check good.npz --op softmax --junit one.xml").code == 0);
    CHECK(check_junit(contents(scratch() / "one.xml")).at("tests") == "1");
    CHECK(run("check torn.npz --op softmax --junit one.xml").code == 3);
    CHECK(check_junit(contents(scratch() / "one.xml")).at("errors") == "1");
    fs::remove_all(scratch());
}

TEST_CASE("the SARIF of a suite is valid, and its fingerprints do not change", "[program][check]") {
    write_mixed();
    CHECK(run("check suite.toml --sarif check.sarif").code == 1);
    const std::string text = contents(scratch() / "check.sarif");
    const Json log = Json::parse(text);
    REQUIRE_NOTHROW(check_sarif(log));
    const Json& results = log.at("runs")[0].at("results");
    const Json& first = results[0];
    CHECK(first.at("ruleId") == Json("KC020"));
    CHECK(first.at("level") == Json("error"));
    const Json& place = first.at("locations")[0].at("physicalLocation");
    CHECK(place.at("artifactLocation").at("uri") == Json("src/soft%20max.cu"));
    CHECK(place.at("region").at("startLine") == Json(30));
    std::set<std::string> prints;
    for (const Json& result : results) {
        CHECK(result.at("partialFingerprints").at("macheps/check").string().size() == 64);
        prints.insert(result.at("partialFingerprints").at("macheps/check").string());
    }
    CHECK(prints.size() == results.size());
    // A second run writes the same text. If the error of a kernel changes, the fingerprint stays and the message
    // changes.
    CHECK(run("check suite.toml --sarif check.sarif").code == 1);
    CHECK(contents(scratch() / "check.sarif") == text);
    write_softmax("bad.npz", 0.99f);
    run("check suite.toml --sarif check.sarif");
    const Json again = Json::parse(contents(scratch() / "check.sarif"));
    CHECK(again.at("runs")[0].at("results")[0].at("partialFingerprints") == first.at("partialFingerprints"));
    CHECK_FALSE(again.at("runs")[0].at("results")[0].at("message") == first.at("message"));
    // If a suite passes, its SARIF log has no results.
    write("suite.toml", good_suite);
    CHECK(run("check suite.toml --sarif check.sarif").code == 0);
    CHECK(Json::parse(contents(scratch() / "check.sarif")).at("runs")[0].at("results").empty());
    fs::remove_all(scratch());
}

TEST_CASE("in a GitHub job, check writes annotations and a summary table without an option", "[program][check]") {
    write_mixed();
    write("page.md", "what stood there\n");
    const std::string github = "GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=page.md";
    const Outcome outcome = run("check suite.toml", github);
    CHECK(outcome.code == 1);
    CHECK(holds(outcome.out, "\n::error file=src/soft max.cu,line=30,title=KC020::bad <rows>"));
    CHECK(holds(outcome.out, "title=KC090::torn/torn.npz: "));
    const std::string page = contents(scratch() / "page.md");
    CHECK(page.starts_with("what stood there\n### macheps check: 1 pass, 1 fail"));
    CHECK(holds(page, "\n| fail | bad &#60;rows&#62; &#38; \"more\" | bad.npz |"));
    // With --json, the annotations go to stderr.
    const Outcome json = run("check suite.toml --json", github);
    CHECK(Json::parse(json.out).at("verdict") == Json("fail"));
    CHECK(holds(json.err, "::error "));
    CHECK_FALSE(holds(run("check suite.toml").out, "::error"));
    CHECK(holds(run("check suite.toml --github").out, "::error"));
    // Only the ten worst failures have annotations.
    std::string many;
    for (int i = 0; i < 14; ++i)
        many += "[[check]]\nname = \"c" + std::to_string(i) + "\"\nop = \"softmax\"\nfiles = \"bad.npz\"\n";
    write("many.toml", many);
    const std::string lines = run("check many.toml --github").out;
    std::size_t count = 0;
    for (std::size_t at = lines.find("\n::"); at != std::string::npos; at = lines.find("\n::", at + 1)) ++count;
    CHECK(count == 10);
    CHECK(run("check suite.toml", "GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=nowhere/page.md").code == 5);
    fs::remove_all(scratch());
}

TEST_CASE("the JSON of a suite has one element for each input", "[program][check]") {
    write_mixed();
    const Outcome outcome = run("check suite.toml --json");
    const Json document = Json::parse(outcome.out);
    CHECK(document.at("schema") == Json("macheps.check/1"));
    CHECK(document.at("verdict") == Json("fail"));
    const Json& checks = document.at("checks");
    REQUIRE(checks.size() == 4);
    CHECK(checks[0].at("verdict") == Json("pass"));
    CHECK(checks[0].at("inputs")[0].at("sha256").string().size() == 64);
    CHECK(checks[2].at("verdict") == Json("input"));
    CHECK(checks[3].at("reasons")[0].at("code") == Json("KC092"));
    CHECK(run("check suite.toml --json").out == outcome.out);
    fs::remove_all(scratch());
}

TEST_CASE("a check passes if its results equal the baseline, and fails if errors grow or inputs are missing",
          "[program][check]") {
    fs::remove_all(scratch());
    write_softmax("good.npz", 1);
    write("suite.toml", good_suite);
    CHECK(run("check suite.toml --baseline check.lock --update-baseline").code == 0);
    const std::string lock = contents(scratch() / "check.lock");
    CHECK(run("check suite.toml --baseline check.lock --update-baseline").code == 0);
    CHECK(contents(scratch() / "check.lock") == lock);
    const Outcome same = run("check suite.toml --baseline check.lock");
    CHECK(same.code == 0);
    CHECK_FALSE(holds(same.out, "note"));
    // An error of one unit in the last place is allowed, but gives a note.
    write_softmax("good.npz", 1 + 0x1p-22f);
    const Outcome other = run("check suite.toml --baseline check.lock");
    CHECK(other.code == 0);
    CHECK(holds(other.out, "note: the bits differ from the baseline"));
    // The same outputs fail if the errors in the baseline are much smaller.
    const Json document = Json::parse(lock);
    Json row = document.at("rows")[0];
    row["rms"] = 1e-3;
    Json rows = Json::array();
    rows.push_back(row);
    Json better = document;
    better["rows"] = rows;
    write("check.lock", better.dump());
    const Outcome worse = run("check suite.toml --baseline check.lock --sarif check.sarif");
    CHECK(worse.code == 1);
    CHECK(holds(worse.out, "KC060 baseline  errors grew: their rms"));
    CHECK(holds(contents(scratch() / "check.sarif"), "\"KC060\""));
    CHECK(run("check suite.toml --baseline /dev/full --update-baseline").code == 3);  // not a file that can be read
    // Without a baseline, the check fails but still writes its reports.
    const Outcome none = run("check suite.toml --baseline none.lock --junit none.xml");
    CHECK(none.code == 3);
    CHECK(holds(none.err, "no baseline yet"));
    CHECK(holds(contents(scratch() / "none.xml"), "<testcase"));
    // If the suite lacks an input that the baseline has, it may detect fewer faults. Therefore, it fails.
    row = document.at("rows")[0];
    row["input"] = "gone.npz";
    rows = document.at("rows");
    rows.push_back(row);
    better["rows"] = rows;
    write_softmax("good.npz", 1);
    write("check.lock", better.dump());
    const Outcome gone = run("check suite.toml --baseline check.lock --junit gone.xml");
    CHECK(gone.code == 1);
    CHECK(holds(gone.out, "gone.npz  KC062"));
    CHECK(holds(contents(scratch() / "gone.xml"), "gone.npz"));
    fs::remove_all(scratch());
}

TEST_CASE("if the disk is full, every file that a check writes gives exit code 5", "[program][check]") {
    fs::remove_all(scratch());
    write_softmax("good.npz", 1);
    write("suite.toml", good_suite);
    for (const char* option : {"--junit", "--sarif"}) {
        CAPTURE(option);
        const Outcome outcome = run(std::string("check suite.toml ") + option + " /dev/full");
        CHECK(outcome.code == 5);
        CHECK(holds(outcome.err, "/dev/full"));
    }
    CHECK(run("check good.npz --op softmax --bounds /dev/full").code == 5);
    CHECK(run("check suite.toml --json >/dev/full 2>full.txt; exit $?;").code == 5);
    fs::remove_all(scratch());
}

}  // namespace check_suite_test
