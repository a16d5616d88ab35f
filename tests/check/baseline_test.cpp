// SPDX-License-Identifier: Apache-2.0
// Tests of baselines (accepted results of earlier checks): changes that make a kernel worse, changes that only make its
// output different, and files that are not a baseline.
#include "experiments/check/verdicts/baseline.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace baseline_test {

using namespace macheps;
using namespace macheps::check;

namespace {

/// Returns the result of a check with 800 outputs that passed. For this number of outputs, a comparison with the
/// baseline accepts that the mean square of the errors grows by a factor of at most (1 + 6/20)^2.
Checked passed(const std::string& name = "norm", const std::string& input = "a.npz") {
    Checked one{.name = name, .input = input, .operation = "rmsnorm"};
    one.declaration = {.operation = &find_operation("rmsnorm")};
    one.verdict.judgement = {.rho = 0.6, .z = 0.25, .mean_square = 1, .outputs = 800};
    one.omega = std::nan("");
    one.blind = {"rows shifted"};
    one.output_sha256 = "bits";
    one.inputs_sha256 = "inputs";
    return one;
}

std::string text_of(const std::vector<Checked>& checks, const Baseline& old = {}) { return baseline_text(checks, old); }

Baseline agreed() { return parse_baseline(text_of({passed()}), "check.lock"); }

}  // namespace

TEST_CASE("a baseline file is read back unchanged, and the same checks write the same bytes", "[check][baseline]") {
    Checked other = passed("alone", "b.npz");
    other.omega = 0x1.23456789abcdep-7;
    other.verdict.judgement.rho = 1 / 3.0;
    const std::string text = text_of({passed(), other});
    const Baseline rows = parse_baseline(text, "check.lock");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].name == "alone");  // sorted
    CHECK(rows[0].omega == 0x1.23456789abcdep-7);
    CHECK(rows[0].rho == 1 / 3.0);
    CHECK(std::isnan(rows[1].omega));
    CHECK(rows[1].blind == std::vector<std::string>{"rows shifted"});
    CHECK(text_of({other, passed()}) == text);
}

TEST_CASE("a comparison with the baseline adds a note only if the output bits differ", "[check][baseline]") {
    std::vector<Checked> same{passed()};
    CHECK(compare(same, agreed()).empty());
    CHECK(same[0].notes.empty());
    CHECK(same[0].outcome == Outcome::pass);
    std::vector<Checked> other{passed()};
    other[0].output_sha256 = "other bits";
    other[0].verdict.judgement.rho = 0.74;
    other[0].verdict.judgement.mean_square = 1.29 * 1.29;
    compare(other, agreed());
    CHECK(other[0].outcome == Outcome::pass);
    REQUIRE(other[0].notes.size() == 1);
    CHECK(other[0].notes[0].starts_with("the bits differ from the baseline"));
}

TEST_CASE("a check fails if its errors are larger than in the baseline, or if it misses more wrong kernels",
          "[check][baseline]") {
    const auto outcome_of = [](auto change) {
        std::vector<Checked> now{passed()};
        now[0].output_sha256 = "other bits";
        change(now[0]);
        compare(now, agreed());
        for (const Reason& reason : now[0].verdict.reasons) CHECK(reason.code == "KC060");
        CHECK((now[0].outcome == Outcome::fail) == !now[0].verdict.reasons.empty());
        return now[0].outcome;
    };
    CHECK(outcome_of([](Checked& one) { one.verdict.judgement.mean_square = 1.31 * 1.31; }) == Outcome::fail);
    CHECK(outcome_of([](Checked& one) { one.verdict.judgement.rho = 0.751; }) == Outcome::fail);
    CHECK(outcome_of([](Checked& one) { one.verdict.judgement.rho = 0.749; }) == Outcome::pass);
    CHECK(outcome_of([](Checked& one) { one.blind.push_back("last term dropped"); }) == Outcome::fail);
    CHECK(outcome_of([](Checked& one) { one.blind.clear(); }) == Outcome::pass);
    // If the output has the same bits as the baseline, the errors are not compared.
    std::vector<Checked> same{passed()};
    same[0].verdict.judgement.rho = 9;
    compare(same, agreed());
    CHECK(same[0].outcome == Outcome::pass);
}

TEST_CASE("errors count as worse than the baseline only if the largest error exceeds 5/8 of its bound",
          "[check][baseline]") {
    Checked small = passed();
    small.verdict.judgement.rho = 0.01;
    const Baseline rows = parse_baseline(text_of({small}), "check.lock");
    for (const double rho : {0.62, 0.63}) {
        std::vector<Checked> now{small};
        now[0].output_sha256 = "other bits";
        now[0].verdict.judgement.rho = rho;
        compare(now, rows);
        CHECK((now[0].outcome == Outcome::fail) == (rho > 0.625));
    }
}

TEST_CASE("a result is not compared with the baseline if the declaration or the inputs changed, and a note says so",
          "[check][baseline]") {
    std::vector<Checked> declared{passed()}, given{passed()};
    declared[0].declaration.eps = 1e-5;
    declared[0].verdict.judgement.rho = given[0].verdict.judgement.rho = 9;
    given[0].inputs_sha256 = "other inputs";
    compare(declared, agreed());
    compare(given, agreed());
    for (const auto* one : {&declared[0], &given[0]}) {
        CHECK(one->outcome == Outcome::pass);
        REQUIRE(one->notes.size() == 1);
        CHECK(one->notes[0].starts_with("not compared with the baseline, because the "));
    }
    CHECK(declared[0].notes[0].find("the declaration changed") != std::string::npos);
    CHECK(given[0].notes[0].find("the inputs changed") != std::string::npos);
}

TEST_CASE("baseline rows without a checked input and inputs without a baseline row are reported", "[check][baseline]") {
    std::vector<Checked> now{passed("norm", "new.npz")};
    const std::vector<Checked> gone = compare(now, agreed());
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].name + "/" + gone[0].input == "norm/a.npz");
    CHECK(gone[0].outcome == Outcome::fail);
    CHECK(gone[0].verdict.reasons.at(0).code == "KC062");
    REQUIRE(now[0].notes.size() == 1);
    CHECK(now[0].notes[0].find("no row") != std::string::npos);
    // If a check fails, its old row in the baseline is kept.
    Checked failed = passed();
    failed.outcome = Outcome::fail;
    failed.verdict.judgement.rho = 9;
    const Baseline kept = parse_baseline(text_of({failed, passed("b")}, agreed()), "check.lock");
    REQUIRE(kept.size() == 2);
    CHECK(kept[1].rho == 0.6);
    CHECK(parse_baseline(text_of({failed}), "check.lock").empty());
}

TEST_CASE("a file that is not a baseline is bad input, and the error names the file", "[check][baseline]") {
    const std::string good = text_of({passed()});
    for (std::string text : {std::string(), std::string("[]"), std::string("{\"schema\": \"macheps.check/1\"}"),
                             std::string("{\"schema\": \"macheps.check.lock/1\"}"),
                             std::string("{\"schema\": \"macheps.check.lock/1\", \"rows\": [{}]}"),
                             std::string("{\"schema\": \"macheps.check.lock/1\", \"rows\": 3}"), std::string(5000, '['),
                             good.substr(0, good.size() / 2)}) {
        CAPTURE(text);
        try {
            parse_baseline(text, "check.lock");
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            CHECK(std::string(error.what()).starts_with("check.lock: "));
        }
    }
    std::string rho = good;
    rho.replace(rho.find("0.6"), 3, "\"x\"");
    CHECK_THROWS_AS(parse_baseline(rho, "check.lock"), Error);
}

}  // namespace baseline_test
