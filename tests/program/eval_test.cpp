// SPDX-License-Identifier: Apache-2.0
// Tests the rows, the JSON and the errors of `macheps eval`.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace eval_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

/// Returns whether this build has Arb. Without Arb, `eval` exits with code 4. The error names the program that has Arb
/// and the package to install.
bool has_arb() {
    const Outcome one = run("eval x -f e5m2 -q");
    const bool names_both =
        one.err.find("Python wheel") != std::string::npos && one.err.find("install FLINT") != std::string::npos;
    CHECK((one.code == 0 || (one.code == 4 && names_both)));
    return one.code == 0;
}

}  // namespace

TEST_CASE("eval prints rows of errors, writes the points, and prints formulas as FPCore", "[program][eval]") {
    if (!has_arb()) SKIP_TEST("this build has no Arb");
    fs::remove_all(scratch());
    const std::string what = "eval 'sqrt(x+1)-sqrt(x)' 'x*x' --x 0:inf -f e4m3fn,e5m2 ";
    const Outcome rows = run(what + "--points-out points.csv");
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    CHECK(rows.out.starts_with("expression,name,format,round,functions,inputs,skipped,unresolved,mean_bits,max_bits,"));
    CHECK(std::count(rows.out.begin(), rows.out.end(), '\n') == 5);
    CHECK(contents(scratch() / "points.csv").starts_with("x,result,reference,ulp,bits,"));
    const json document = json::parse(run("eval x+1 --x=-1:1 -f e4m3fn -q --json").out, nullptr, false);
    CHECK(document["rows"][0]["not_correct"] == 0);
    CHECK(document["rows"][0]["inputs"] == 114);
    CHECK(run("eval 'exp(x)-1' --as fpcore").out == "(FPCore (x) (- (exp x) 1))\n");
    write("a.fpcore", "(FPCore (x) :name \"one\" (+ x 1))\n(FPCore (x) :name \"two\" (- x))\n");
    const Outcome only = run("eval a.fpcore --only 't*' -f e5m2 -q");
    CHECK(std::count(only.out.begin(), only.out.end(), '\n') == 2);
    CHECK(only.out.find("two") != std::string::npos);
    write("kept.fpcore",
          "(FPCore (x) :precision binary16 (- (! :precision binary32 (* x x)) x))\n(FPCore (x) :precision binary80 x)");
    const Outcome kept = run("eval kept.fpcore -f e5m2 --keep-precision --csv");
    CHECK(kept.code == 0);
    CHECK(kept.err.find("left out: line 2: precision binary80 is not supported") != std::string::npos);
    CHECK(kept.out.find("(- (! :precision binary32 (* x x)) x)),,fp16,nearest_even,") != std::string::npos);
    CHECK(run("eval kept.fpcore -f e5m2 -q --csv").out.find(",fp16,") == std::string::npos);
    for (const char* one : {"304", "0x1.3p8", "+304", "304:304", "0X1.3P+8:304"}) {
        CAPTURE(one);
        const Outcome evaluated = run(std::string("eval 'exp(x)' -f fp64 --round up -q --json --x ") + one);
        const json row = json::parse(evaluated.out, nullptr, false)["rows"][0];
        CHECK(row["inputs"] == 1);
        CHECK(row["worst_x"] == "4073000000000000 304");
        CHECK(row["not_correct"] == 0);
    }
    std::string help = run("eval --help").out;
    std::replace(help.begin(), help.end(), '\n', ' ');  // a line may end after any name
    for (const char* name : {"erf ", "erfc ", "tgamma ", "lgamma ", "remainder ", "isnormal ", "fma ", "nearbyint "})
        CHECK(help.find(name) != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("eval refuses invalid formulas, inputs and options", "[program][eval]") {
    if (!has_arb()) SKIP_TEST("this build has no Arb");
    fs::remove_all(scratch());
    struct Case {
        const char* arguments;
        int code;
        const char* told;
    };
    write("bad.fpcore", "(FPCore (x)\n (+ x z))");
    const Case c = GENERATE(
        Case{"'expp(x)'", 2, "did you mean exp"}, Case{"x --y 0:1", 2, "no formula has an input 'y'"},
        Case{"x --x 1:0", 2, "the range from 1 to 0 is empty"}, Case{"x --x 1:", 2, "is not a valid number"},
        Case{"x --x 0.1", 2, "0.1 cannot be represented in fp16"}, Case{"x --x --1", 2, "is not a valid number"},
        Case{"x --x a:b", 2, "is not a valid number"}, Case{"x -f e8m0fnu", 2, "cannot compute in e8m0fnu"},
        Case{"bad.fpcore", 3, "bad.fpcore:2: 'z' is not an input"}, Case{"none.fpcore", 3, "none.fpcore"},
        Case{"'exp2(x)' --functions macheps", 2, "does not have exp2"},
        Case{"x --round nearest", 2, "unknown rounding mode"});
    CAPTURE(c.arguments);
    const Outcome refused = run(std::string("eval -q ") + c.arguments);
    CAPTURE(refused.err);
    CHECK(refused.code == c.code);
    CHECK(refused.err.find(c.told) != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("tables of eval name the variables of the largest error and the loss of all digits", "[program][eval]") {
    if (!has_arb()) SKIP_TEST("this build has no Arb");
    fs::remove_all(scratch());
    const Outcome table = run("eval '(1+x)-y' --x 0x1p-13 --y 1 -f fp16 -q --table");
    CHECK(table.out.find("x = 0.0001220703125, y = 1 (0x0800, 0x3c00)") != std::string::npos);
    CHECK(table.out.find("all digits lost") != std::string::npos);
    CHECK(table.out.find("in units in the last place (ulp) of the exact value") != std::string::npos);
    CHECK(run("eval x*x --x 1 -f fp16 -q --table").out.find("digits lost") == std::string::npos);
    // Files of older versions lack the columns `variables` and `digits_lost`.
    write("old.csv",
          "expression,name,format,round,functions,inputs,skipped,unresolved,mean_bits,max_bits,worst_x,max_ulp,"
          "not_correct,overflow,underflow,nan\n(1+x)-1,,fp16,nearest_even,correct,1,0,0,11,11,0800 0.5,1024,1,0,1,0\n");
    const Outcome old = run("report old.csv");
    CAPTURE(old.err);
    CHECK(old.code == 0);
    CHECK(old.out.find(" 0800 0.5\n") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("the program of the wheel runs eval, with the same rows", "[program][eval]") {
    const char* wheel = std::getenv("MACHEPS_WHEEL");
    if (wheel == nullptr) SKIP_TEST("MACHEPS_WHEEL does not name a wheel (scripts/nightly wheel)");
    if (!has_arb()) SKIP_TEST("this build has no Arb");
    fs::remove_all(scratch());
    fs::create_directories(scratch());
    const std::string options = " eval 'sqrt(x+1)-sqrt(x)' 'erf(x)' --x 0:inf -f e4m3fn,e5m2 --csv ",
                      environment = (scratch() / "environment").string();
    // The program loads only the libraries in the wheel. LD_BIND_NOW: every function of these libraries must exist.
    const std::string commands = "python3 -m venv " + environment + " && " + environment + "/bin/pip install -q '" +
                                 wheel + "' && LD_BIND_NOW=1 " + environment + "/bin/macheps" + options + ">'" +
                                 (scratch() / "rows.csv").string() + "'";
    CHECK(std::system(commands.c_str()) == 0);
    CHECK(contents(scratch() / "rows.csv") == run(options).out);
    fs::remove_all(scratch());
}

}  // namespace eval_test
