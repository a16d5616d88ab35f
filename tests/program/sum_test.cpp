// SPDX-License-Identifier: Apache-2.0
// Tests the rows, the tables, the JSON and the errors of `macheps sum`.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>

namespace sum_test {

using namespace macheps::test;
using nlohmann::json;

TEST_CASE("sum writes the same rows to stdout, to a file and as JSON", "[program][sum]") {
    fs::remove_all(scratch());
    const std::string what =
        "sum --sweep n=2^4..2^6 -f fp16,bf16 --method recursive,machine:sm90.wgmma.fp16,exact "
        "--round nearest_even,sr --trials 3 --seeds 0-1 ";
    const Outcome rows = run(what);
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    CHECK(rows.out.starts_with("method,format,round,data,seed,trials,n,result,value,exact,cond,abs_error,error_unit,"));
    // The machine does not multiply bf16, so it has no rows in that format.
    CHECK(std::count(rows.out.begin(), rows.out.end(), '\n') == 1 + 3 * 2 * (5 + 4));
    CHECK(rows.err.find("positive, fp16, n = 16") != std::string::npos);
    const Outcome file = run(what + "-q -o rows.csv --threads 1", "MACHEPS_SIMD=scalar");
    CHECK(file.out.empty());
    CHECK(contents(scratch() / "rows.csv") == rows.out);
    const json document = json::parse(run(what + "-q --json").out, nullptr, false);
    REQUIRE(document["rows"].size() == 54);
    CHECK(document["rows"][1]["round"] == "stochastic");
    CHECK(document["rows"][1]["trials"] == 3);
    CHECK(document["rows"][2]["method"] == "machine:sm90.wgmma.fp16");
    CHECK(document["rows"][2]["bound_unit"].is_null());
    CHECK(document["rows"][4]["method"] == "exact");
    const json plan = json::parse(run(what + "--dry-run --json").out, nullptr, false);
    CHECK(plan["rows"] == 54);
    fs::remove_all(scratch());
}

TEST_CASE("gemm, sum, solve and eval print a table on a terminal, and rows elsewhere", "[program][sum]") {
    fs::remove_all(scratch());
    const std::string what = "sum -n 64 -f bf16 --method recursive,exact -q ";
    const Outcome rows = run(what), table = run(what + "--table");
    CHECK(rows.out.starts_with("method,format,round,"));
    CHECK(table.out.starts_with("data positive, n 64, seed 0, format bf16, round nearest_even\n\nmethod "));
    CHECK(std::count(table.out.begin(), table.out.end(), '\n') == 2 + 3 + 3);
    CHECK(run(what + "--table -o rows.csv").out.empty());
    CHECK(contents(scratch() / "rows.csv") == rows.out);
    CHECK(run(what + "--table --csv").code == 2);
    CHECK(run("solve -q -n 8 --factor fp16 --table").out.find("verdict") != std::string::npos);
    CHECK(run("eval x+1 --x=-1:1 -f e4m3fn -q --table").out.find("mean bits") != std::string::npos);
    const Outcome products =
        run("gemm -d equal --scale 0.0625 -m 1 -n 1 --sweep k=16384,65536 -q --table -M "
            "sm90.wgmma.fp8,sm90.wgmma.fp8+promote128");
    CAPTURE(products.out);
    CHECK(products.out.find("operands e4m3fn, distribution equal, ") == 0);
    CHECK(products.out.find("\n65536  sm90.wgmma.fp8                  0.75       0.75 ") != std::string::npos);
    CHECK(run("gemm -k 32 -q").out.starts_with("machine,format_a,"));
    CHECK(run("gemm --via ozaki1:auto -M sm90.wgmma.fp16 -k 32 -q --table").out.find("ozaki1:auto") !=
          std::string::npos);
    // The command `script` of util-linux runs a program on a pseudo-terminal, if the system provides one.
    if (std::system("script -qec true /dev/null >/dev/null 2>&1 </dev/null") == 0) {
        const auto on_terminal = [&](const std::string& arguments) {
            write("on_terminal.sh", "'" MACHEPS_PROGRAM "' " + arguments + "\n");
            const int status = std::system(
                ("cd '" + scratch().string() + "' && script -qec 'sh on_terminal.sh' /dev/null >seen.txt </dev/null")
                    .c_str());
            CHECK(status == 0);
            std::string text = contents(scratch() / "seen.txt");
            std::erase(text, '\r');
            return text;
        };
        CHECK(on_terminal(what).find(table.out) != std::string::npos);
        CHECK(on_terminal(what + "--csv").find(rows.out) != std::string::npos);
    }
    fs::remove_all(scratch());
}

TEST_CASE("sum refuses invalid options", "[program][sum]") {
    struct Case {
        const char *arguments, *told;
    };
    const Case c = GENERATE(Case{"--method kahn", "did you mean kahan"}, Case{"--method chain", "adds products"},
                            Case{"--method blocked:x", "not a whole number"}, Case{"-f fp8", "fp8"},
                            Case{"-f e8m0fnu", "cannot compute in e8m0fnu"},
                            Case{"--round nearest", "unknown rounding mode"}, Case{"-d gauss", "unknown data 'gauss'"},
                            Case{"-d cancel", "cancel needs a value of c"}, Case{"-n 0", "0"},
                            Case{"--dot -d cancel:4 -n 7", "even n"}, Case{"--sweep k=1..2", "begin with one of n, c"},
                            Case{"--sweep n=2^40", "too many"}, Case{"--trials 0", "0"}, Case{"--lambda 0", "above 0"},
                            Case{"--method machine:sm90.wgmma.fp8 -f bf16", "accepts none of these formats"},
                            Case{"-n 268435456 --memory 1M", "memory"});
    CAPTURE(c.arguments);
    const Outcome refused = run(std::string("sum -q ") + c.arguments);
    CAPTURE(refused.err);
    CHECK(refused.code == 2);
    CHECK(refused.err.find(c.told) != std::string::npos);
    CHECK(refused.out.empty());
    fs::remove_all(scratch());
}

TEST_CASE("sum: only a sum without stochastic rounding stagnates", "[program][sum]") {
    const Outcome outcome =
        run("sum -d positive -n 4096 -f bf16 --method recursive --round nearest_even,stochastic -q --json");
    REQUIRE(outcome.code == 0);
    const json rows = json::parse(outcome.out)["rows"];
    REQUIRE(rows.size() == 2);
    for (const json& row : rows) CHECK(row["stagnated_at"].is_null() == (row["round"] == "stochastic"));
}

}  // namespace sum_test
