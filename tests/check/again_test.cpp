// SPDX-License-Identifier: Apache-2.0
// Tests the comparison of two runs of one kernel. Also tests the advice in the report of a weak check: which inputs
// would catch the wrong kernels that the check could not have caught.
#include "experiments/check/verdicts/run.hpp"
#include "tests/check/npz.hpp"
#include "tests/check/problems.hpp"
#include "tests/scratch.hpp"

namespace again_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;
using namespace macheps::files;

namespace {

std::vector<StoredArray> silu_rows(bool is_other) {
    std::mt19937 random(5);
    const Floats x = normal(20 * 100, random);
    Floats y;
    for (const float each : x) y.push_back(each / (1 + std::exp(-each)));
    if (is_other) y[307] = std::nextafter(y[307], 0.0f);
    return {array("x", {20, 100}, x), array("out", {20, 100}, y)};
}

std::string json_of(const Checked& checked) { return checked.json().dump(-1); }

}  // namespace

TEST_CASE("two runs of a kernel that claims to be deterministic must give the same bits", "[check][suite]") {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "again");
    write_npz(folder / "a.npz", silu_rows(false));
    write_npz(folder / "b.npz", silu_rows(false));
    write_npz(folder / "again/a.npz", silu_rows(false));
    write_npz(folder / "again/b.npz", silu_rows(true));
    const std::string suite = "[[check]]\nop = 'silu'; files = '" + (folder / "?.npz").string() +
                              "'; deterministic_with = '" + (folder / "again/*.npz").string() + "'\n";
    const std::vector<Checked> all = run_suite(parse_suite(suite, "suite.toml"), true, pool());
    REQUIRE(all.size() == 2);
    CHECK(all[0].outcome == Outcome::pass);
    CHECK(all[1].outcome == Outcome::fail);
    REQUIRE(all[1].verdict.reasons.size() == 1);
    const Reason& reason = all[1].verdict.reasons.front();
    CHECK(reason.code == "KC070");
    CHECK(reason.index == 307);
    CHECK(reason.count == 1);
    CHECK(all[1].text().find("first at (3, 7); 1 outputs") != std::string::npos);
    CHECK(json_of(all[1]).find("KC070") != std::string::npos);
}

TEST_CASE("the output of a kernel's second run must exist and have the same shape as the first", "[check][suite]") {
    const TemporaryFolder folder;
    write_npz(folder / "a.npz", silu_rows(false));
    const auto outcome_with = [&](const std::string& file) {
        const std::string suite = "[[check]]\nop = 'silu'; files = '" + (folder / "a.npz").string() +
                                  "'; deterministic_with = '" + file + "'\n";
        const Checked one = run_suite(parse_suite(suite, "suite.toml"), true, pool()).front();
        REQUIRE(one.verdict.reasons.size() == 1);
        return std::string(to_string(one.outcome)) + " " + one.verdict.reasons.front().text;
    };
    CHECK(outcome_with((folder / "none.npz").string()).find("input") == 0);
    std::vector<StoredArray> shorter = silu_rows(false);
    shorter[1].shape = {10, 200};
    write_npz(folder / "c.npz", shorter);
    CHECK(outcome_with((folder / "c.npz").string()).find("a different shape") != std::string::npos);
    write_npz(folder / "d.npz", {silu_rows(false)[0]});
    CHECK(outcome_with((folder / "d.npz").string()).find("no array 'out'") != std::string::npos);
}

TEST_CASE("a weak check reports which wrong kernel it misses, and names a recipe whose inputs catch this kernel",
          "[check][suite]") {
    const TemporaryFolder folder;
    std::mt19937 random(6);
    const Floats x = normal(16 * 256, random, 0, 1, Store::fp16);
    Floats y;
    for (std::size_t r = 0; r < 16; ++r) {
        double squares = 0;
        for (std::size_t c = 0; c < 256; ++c) squares += static_cast<double>(x[r * 256 + c]) * x[r * 256 + c];
        for (std::size_t c = 0; c < 256; ++c)
            y.push_back(
                kernels::stored(Store::fp16, static_cast<float>(x[r * 256 + c] / std::sqrt(squares / 256 + 1e-5))));
    }
    write_npz(folder / "n.npz", {array("x", {16, 256}, x, Store::fp16), array("out", {16, 256}, y, Store::fp16)});
    const std::string suite = "[[check]]\nop = 'rmsnorm'; eps = 1e-5; files = '" + (folder / "n.npz").string() + "'\n";
    const Checked one = run_suite(parse_suite(suite, "suite.toml"), true, pool()).front();
    CHECK(one.outcome == Outcome::weak);
    REQUIRE(one.advice.size() == 1);
    CHECK(one.advice.front().mutant == "eps 1e-06 for 1e-05");
    CHECK(one.advice.front().recipe == "small-rms");
    CHECK(one.text().find("advice: inputs of the recipe 'small-rms' would catch: eps 1e-06 for 1e-05") !=
          std::string::npos);
    CHECK(json_of(one).find("\"advice\"") != std::string::npos);
}

}  // namespace again_test
