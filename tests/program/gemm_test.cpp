// SPDX-License-Identifier: Apache-2.0
// Tests the rows, the JSON and the errors of `macheps gemm`, and reports made from its rows.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>

namespace gemm_test {

using namespace macheps::test;
using nlohmann::json;

TEST_CASE("gemm writes the same rows to stdout, to a file and as JSON", "[program]") {
    fs::remove_all(scratch());
    const std::string what = "gemm -m 2 -n 3 --sweep k=64..256 --machine sm90.wgmma.fp8,exact ";
    const Outcome rows = run(what);
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    CHECK(rows.out.starts_with("machine,format_a,format_b,output,distribution,scaling,scale,seed,m,n,k,"));
    CHECK(std::count(rows.out.begin(), rows.out.end(), '\n') == 1 + 3 * 2);
    CHECK(rows.err.find("[5/6] e4m3fn normal seed 0, 2 x 3 x 256") != std::string::npos);
    const Outcome file = run(what + "-q -o rows.csv");
    CHECK(file.out.empty());
    CHECK(file.err == "wrote rows.csv\n");
    CHECK(contents(scratch() / "rows.csv") == rows.out);
    CHECK(run(what + "-q --threads 1").out == rows.out);
    const Outcome printed = run(what + "-q --json");
    CHECK(printed.err.empty());
    const json document = json::parse(printed.out, nullptr, false);
    REQUIRE(document.is_object());
    CHECK(document["schema"] == 2);
    REQUIRE(document["rows"].size() == 6);
    CHECK(document["rows"][5]["k"] == 256);
    CHECK(document["rows"][5]["machine"] == "exact");
    CHECK(document["rows"][0]["outputs"] == 6);
    fs::remove_all(scratch());
}

TEST_CASE("gemm shows that a long sum stalls in the accumulator unless partial sums are promoted", "[program]") {
    const Outcome outcome =
        run("gemm -q --json -m 1 -n 1 -d equal --scale 0.0625 --sweep k=16384..65536 "
            "--machine sm90.wgmma.fp8,sm90.wgmma.fp8+promote128");
    const json document = json::parse(outcome.out, nullptr, false);
    REQUIRE(document["rows"].size() == 6);
    for (int i = 0; i < 3; ++i) {
        CHECK(document["rows"][2 * i]["first"] == 64);
        CHECK(document["rows"][2 * i + 1]["first"] == 64 << i);
    }
    fs::remove_all(scratch());
}

TEST_CASE("gemm scales operands for the machines that support the scaling", "[program]") {
    const Outcome outcome =
        run("gemm -q --json -m 2 -n 2 -k 256 --scaling none,deepgemm,mx32 "
            "--machine sm90.wgmma.fp8,deepgemm.sm90.1d2d,sm100.tcgen05.mxfp8");
    const json document = json::parse(outcome.out, nullptr, false);
    REQUIRE(document["rows"].size() == 3 + 1 + 1);
    CHECK(document["rows"][3]["scaling"] == "deepgemm");
    CHECK(document["rows"][3]["machine"] == "deepgemm.sm90.1d2d");
    CHECK(document["rows"][3]["evidence"] == "hardware");
    CHECK(document["rows"][1]["evidence"] == "unverified");  // DeepGEMM has no product without scales
    CHECK(document["rows"][4]["machine"] == "sm100.tcgen05.mxfp8");
    // stderr reports how many combinations of formats and scalings each machine accepts.
    CHECK(outcome.err.find("sm90.wgmma.fp8: accepts 1 of the 3 combinations") == 0);
    fs::remove_all(scratch());
}

TEST_CASE("a named machine must accept the operands; `all` skips machines that do not and reports how many",
          "[program]") {
    const std::string two = "gemm -q -m 2 -n 2 -k 256 --machine sm90.wgmma.fp8,deepgemm.sm90.1d2d ";
    for (const char* formats : {"", " --format e4m3fn"}) {
        const Outcome refused = run(two + "--scaling deepgemm" + formats);
        CAPTURE(refused.err);
        CHECK(refused.code == 2);
        CHECK(refused.out.empty());
        CHECK(refused.err.find("sm90.wgmma.fp8: this machine does not support the given scaling") != std::string::npos);
        CHECK(refused.err.find("use --scaling with one of none, tensor, row") != std::string::npos);
    }
    CHECK(run(two + "--scaling deepgemm --dry-run").code == 2);
    CHECK(run(two + "--scaling tensor").err.empty());
    const Outcome all = run("gemm -q --json -m 1 -n 1 -k 32 --machine all --format e4m3fn");
    CAPTURE(all.err);
    CHECK(all.code == 0);
    const json document = json::parse(all.out, nullptr, false);
    const json list = json::parse(run("machine list --json").out, nullptr, false);
    REQUIRE(list.is_array());
    const std::size_t machines = list.size(), left_out = machines - document["rows"].size();
    CHECK(left_out > 20);
    CHECK(all.err == "all: " + std::to_string(left_out) + " of " + std::to_string(machines) +
                         " machines accept none of these operands and are left out\n");
    // A machine that is named in addition to `all` must accept the operands.
    CHECK(run("gemm -q -m 1 -n 1 -k 32 --machine all,sm80.mma.fp16 --format e4m3fn").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("report makes a page from the rows of gemm, alone or together with training runs", "[program]") {
    fs::remove_all(scratch());
    REQUIRE(run("gemm -q -m 2 -n 2 --sweep k=64..256 -o sums.csv").code == 0);
    const Outcome alone = run("report sums.csv");
    CAPTURE(alone.err);
    CHECK(alone.code == 0);
    CHECK(alone.err == "wrote sums.html\n");
    CHECK(alone.out.starts_with("machine "));
    CHECK(alone.out.find("2 x 2 x 256") != std::string::npos);
    CHECK_FALSE(fs::exists(scratch() / "summary.csv"));
    CHECK(contents(scratch() / "sums.html").find("15 matrix products") != std::string::npos);
    const json rows = json::parse(run("report sums.csv --json").out, nullptr, false);
    CHECK(rows["gemm"].size() == 15);
    CHECK(rows["policies"].empty());
    REQUIRE(run(std::string(quick) + "--policy tf32 --out run --no-report").code == 0);
    const Outcome both = run("report run sums.csv --json");
    const json joined = json::parse(both.out, nullptr, false);
    CHECK(joined["policies"].size() == 2);
    CHECK(joined["gemm"].size() == 15);
    CHECK(fs::exists(scratch() / "run/report.html"));
    CHECK(fs::exists(scratch() / "run/summary.csv"));
    write("other.csv", "a,b\n1,2\n");
    CHECK(run("report other.csv").code == 3);
    fs::remove_all(scratch());
}

TEST_CASE("gemm accepts machines, orders of summation in any format, and operands in any format", "[program]") {
    fs::remove_all(scratch());
    const Outcome outcome =
        run("gemm -q -m 2 -n 2 --sweep k=16..64 -f e5m6 -o orders.csv "
            "-M pairwise:fp16,kahan:bf16,chain:bf16:stochastic,chain:e3m4,exact,fp16.chain");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const json report = json::parse(run("report orders.csv --json").out, nullptr, false);
    REQUIRE(report["gemm"].size() == 18);
    CHECK(report["gemm"][0]["machine"] == "pairwise:fp16");
    CHECK(report["gemm"][0]["format_a"] == "e5m6");
    CHECK(report["gemm"][2]["output"] == "bf16");
    CHECK(report["gemm"][3]["output"] == "e3m4");
    // Sums of the same operands in different formats share one chart, which has one curve for each machine.
    const std::string page = contents(scratch() / "orders.html");
    CHECK(page.find(R"("set":["e5m6, normal"])") != std::string::npos);
    CHECK(
        page.find(
            R"("machine":["pairwise:fp16","kahan:bf16","chain:bf16:stochastic","chain:e3m4","exact","fp16.chain"])") !=
        std::string::npos);
    // A machine such as `kahan:e5m6` names an order of summation and a format of its sums. Without --format, the
    // operands also have this format.
    const json own = json::parse(run("gemm -q --json -m 1 -n 1 -k 8 -M kahan:e5m6").out, nullptr, false);
    CHECK(own["rows"][0]["format_b"] == "e5m6");
    fs::remove_all(scratch());
}

TEST_CASE("gemm --dry-run counts rows and products, and computes nothing", "[program]") {
    fs::remove_all(scratch());
    const Outcome outcome = run("gemm --dry-run --json --sweep k=64..256 --seeds 1,2 -m 4 -n 4 -o rows.csv");
    const json plan = json::parse(outcome.out, nullptr, false);
    REQUIRE(plan.is_object());
    CHECK(plan["rows"] == 5 * 6);
    CHECK(plan["products"] == 6);
    CHECK(plan["multiply_adds"] == 2 * 5 * 16 * (64 + 128 + 256));
    CHECK_FALSE(fs::exists(scratch() / "rows.csv"));
    // `all` selects every machine that accepts the format.
    const json all = json::parse(run("gemm --machine all --format fp16 --dry-run --json").out, nullptr, false);
    CHECK(all["rows"] > 20);
    CHECK(all["rows"] < 60);
    fs::remove_all(scratch());
}

TEST_CASE("an error of gemm is one line", "[program]") {
    struct Case {
        const char *arguments, *says;
        int code;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"--machine sm90.wgmma.fp9", "did you mean 'sm90.wgmma.fp8'", 2},
             {"--machine sm80.mma.fp16 --format e5m2", "use --format with one of fp16", 2},
             {"--machine sm80.mma.fp64", "fp64", 2},
             {"--machine sm70.mma.fp16.c16", "its own results", 2},
             {"--machine all", "--format", 2},
             {"--machine pairwse:fp16", "did you mean 'pairwise'", 2},
             {"--machine pairwise:bf61", "did you mean bf16", 2},
             {"--machine chain:bf16:stochstic", "did you mean stochastic", 2},
             {"--machine chain:bf16 --scaling row", "use --scaling with one of none, tensor", 2},
             {"--machine fp32.chain+promote128", "does not support promotion", 2},
             {"--format e4m3", "e4m3fn", 2},
             {"--distribution gauss", "gauss", 2},
             {"--sweep k=4..2", "--sweep", 2},
             {"-k 0", "give 1 to 268435456", 2},
             {"-m 1 -n 1 -k 32 -o missing/rows.csv", "missing/rows.csv", 5}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("gemm -q ") + c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.err.find(c.says) != std::string::npos);
        CHECK(outcome.out.empty());
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    fs::remove_all(scratch());
}

}  // namespace gemm_test
