// SPDX-License-Identifier: Apache-2.0
// `macheps sum` as people and programs call it.
#include "tests/program/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

using namespace macheps::test;
using nlohmann::json;

TEST_CASE("sum prints rows, and the same rows into a file and as JSON", "[program][sum]") {
    fs::remove_all(scratch());
    const std::string what = "sum --sweep n=16..64 -f fp16,bf16 --method recursive,kahan --round nearest_even,sr --trials 3 ";
    const Outcome rows = run(what);
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    CHECK(rows.out.starts_with("method,format,round,data,seed,trials,n,result,value,exact,cond,abs_error,"));
    CHECK(std::count(rows.out.begin(), rows.out.end(), '\n') == 1 + 3 * 2 * 2 * 2);
    CHECK(rows.err.find("positive, n = 64, bf16, seed 0") != std::string::npos);
    CHECK(run(what + "-q -o rows.csv --threads 1").out.empty());
    CHECK(contents(scratch() / "rows.csv") == rows.out);
    const json document = json::parse(run(what + "-q --json").out, nullptr, false);
    REQUIRE(document["rows"].size() == 24);
    CHECK(document["rows"][2]["round"] == "stochastic");
    CHECK(document["rows"][2]["trials"] == 3);
    CHECK(document["rows"][0]["trials"] == 1);
    const json plan = json::parse(run(what + "--dry-run --json").out, nullptr, false);
    CHECK(plan["rows"] == 24);
    const json dots = json::parse(run("sum -q --json --dot -d cancel --sweep c=0..8 -n 16 -f fp32 --method dot2").out, nullptr, false);
    REQUIRE(dots["rows"].size() == 3);
    CHECK(dots["rows"][2]["data"] == "cancel:8");
    CHECK(dots["rows"][2]["exact"] == 2.25 / 256);
    CHECK(dots["rows"][2]["dot"] == true);
    fs::remove_all(scratch());
}

TEST_CASE("sum refuses what means nothing", "[program][sum]") {
    struct Case {
        const char *arguments, *told;
    };
    const Case c = GENERATE(Case{"--method kahn", "did you mean kahan?"}, Case{"--method dot2", "add --dot"},
                            Case{"-d cancel:4", "add --dot"}, Case{"--dot -d cancel:4 -n 7", "even n"},
                            Case{"-f fp64", "not made here"}, Case{"--round nearest", "unknown rounding mode"},
                            Case{"--sweep m=1..4", "an axis is n, c"}, Case{"--sweep n=2^25", "2^24"},
                            Case{"-n 0", "--terms"}, Case{"--lambda 0", "above 0"}, Case{"-d gauss", "no data 'gauss'"});
    CAPTURE(c.arguments);
    const Outcome refused = run(std::string("sum -q ") + c.arguments);
    CHECK(refused.code == 2);
    CHECK(refused.err.find(c.told) != std::string::npos);
    fs::remove_all(scratch());
}
