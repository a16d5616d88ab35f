// SPDX-License-Identifier: Apache-2.0
// Tests the rows, the JSON and the errors of `macheps solve`.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>

namespace solve_test {

using namespace macheps::test;
using nlohmann::json;

TEST_CASE("solve writes the same rows to stdout, to a file and as JSON", "[program][solve]") {
    fs::remove_all(scratch());
    const std::string what = "solve -n 20 --matrix randsvd --sweep kappa=1e1..1e2 --factor fp16,e4m3fn ";
    const Outcome rows = run(what + "--steps steps.csv");
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    CHECK(
        rows.out.starts_with("matrix,n,seed,kappa_2,kappa,kappa_kind,cond,cond_x,factor,substitution,work,residual,"));
    CHECK(std::count(rows.out.begin(), rows.out.end(), '\n') == 1 + 2 * 2 * 3);
    CHECK(rows.err.find("randsvd:100, n = 20, seed 0") != std::string::npos);
    CHECK(contents(scratch() / "steps.csv").starts_with("matrix,n,seed,factor,method,step,fe,nbe,cbe,residual,"));
    const Outcome file = run(what + "-q -o rows.csv --threads 1");
    CHECK(file.out.empty());
    CHECK(contents(scratch() / "rows.csv") == rows.out);
    const json document = json::parse(run(what + "-q --json").out, nullptr, false);
    REQUIRE(document["rows"].size() == 12);
    CHECK(document["rows"][1]["method"] == "ir");
    CHECK(document["rows"][1]["verdict"] == "converged");
    CHECK(document["rows"][0]["inner"].is_null());
    const json plan = json::parse(run(what + "--dry-run --json").out, nullptr, false);
    CHECK(plan["rows"] == 12);
    fs::remove_all(scratch());
}

TEST_CASE("solve reads matrices from files, and refuses files without a square, finite matrix", "[program][solve]") {
    fs::remove_all(scratch());
    write("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 4\n1 1 4\n2 2 4\n3 3 4\n2 1 -1\n");
    const Outcome rows = run("solve -q --json --matrix file:a.mtx --factor fp16 --method ir");
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    const json document = json::parse(rows.out, nullptr, false);
    CHECK(document["rows"][0]["n"] == 3);
    CHECK(document["rows"][0]["matrix"] == "file:a.mtx");
    CHECK(document["rows"][0]["verdict"] == "converged");
    write("wide.mtx", "%%MatrixMarket matrix array real general\n1 2\n1\n1\n");
    const Outcome wide = run("solve -q --matrix file:wide.mtx");
    CHECK(wide.code == 3);
    CHECK(wide.err.find("wide.mtx:2: the matrix is 1 x 2, which is not square") != std::string::npos);
    write("inf.mtx", "%%MatrixMarket matrix array real general\n1 1\ninf\n");
    CHECK(run("solve -q --matrix file:inf.mtx").code == 3);
    CHECK(run("solve -q --matrix file:none.mtx").code == 3);
    fs::remove_all(scratch());
}

TEST_CASE("with --require converged, solve exits with 1 if a system does not converge", "[program][solve]") {
    CHECK(run("solve -q -n 20 --factor fp32 --method ir --require converged").code == 0);
    const Outcome failed = run("solve -q -n 20 --factor e5m2 --matrix randsvd:1e6 --method ir --require converged");
    CHECK(failed.code == 1);
    CHECK(failed.err.find("1 of 1 systems did not converge") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("solve can run the updates of blocked LU on a machine, and refuses impossible options", "[program][solve]") {
    const Outcome rows = run("solve -q --json --preset hplmxp -n 48 --lu block:16 -M sm90.wgmma.fp16,fp32.chain");
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    const json document = json::parse(rows.out, nullptr, false);
    REQUIRE(document["rows"].size() == 2);
    CHECK(document["rows"][0]["machine"] == "sm90.wgmma.fp16");
    CHECK(document["rows"][0]["lu"] == "block:16/fp16/fp32+unpivoted");
    CHECK(document["rows"][0]["verdict"] == "converged");
    CHECK(document["rows"][0]["hpl"] < 16);
    for (const json& row : document["rows"]) {
        // HPL's scaled residual is the backward error over n times the unit roundoff of fp64.
        CHECK(row["hpl"].get<double>() == row["nbe"].get<double>() / (48 * 0x1p-53));
    }
    struct Case {
        const char *arguments, *told;
    };
    const Case c = GENERATE(
        Case{"-M fp32.chain", "a machine is used only in blocked LU"},
        Case{"-M kahan:fp16 --lu block:8", "has no addend"}, Case{"--lu block:0", "unknown variant 'block:0'"},
        Case{"--factor fp8", "fp8"}, Case{"--factor e8m0fnu", "cannot compute in e8m0fnu"},
        Case{"--work fp128", "use fp128 only in"}, Case{"--residual fp16", "cannot hold every number of fp64"},
        Case{"--substitution e4m3fn", "cannot hold"}, Case{"--matrix randsvd", "wrong number of parameters: 0"},
        Case{"--sweep kapa=1..2", "must begin with one of n, kappa"}, Case{"-n 5000", "5000"},
        Case{"--gmres-tol 0", "above 0"}, Case{"--factorisation cholesky", "randsvd:1e3 is not symmetric"},
        Case{"--factorisation lu,qr --lu block:8", "only LU supports"},
        Case{"--factorisation cholesky --matrix minij --scale two-sided", "separately scaled"},
        Case{"--shift 2", "only cholesky shifts the matrix"},
        Case{"--factorisation cholesky --matrix minij --shift -1", "from 0 to 10^6"});
    CAPTURE(c.arguments);
    const Outcome refused = run(std::string("solve -q ") + c.arguments);
    CHECK(refused.code == 2);
    CHECK(refused.err.find(c.told) != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("solve has LU, Cholesky and QR, and --shift keeps the rounded matrix positive definite for Cholesky",
          "[program][solve]") {
    const Outcome rows =
        run("solve -q --json --matrix hilbert -n 12 --factor fp16 --factorisation lu,cholesky,qr --method gmres-ir");
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    const json document = json::parse(rows.out, nullptr, false);
    REQUIRE(document["rows"].size() == 3);
    CHECK(document["rows"][0]["lu"] == "right");
    CHECK(document["rows"][1]["lu"] == "cholesky");
    CHECK(document["rows"][1]["scale"] == "symmetric");
    CHECK(document["rows"][1]["verdict"] == "indefinite");
    CHECK(document["rows"][2]["lu"] == "qr");
    CHECK(document["rows"][2]["scale"] == "two-sided");
    const Outcome shifted =
        run("solve -q --json --matrix hilbert -n 12 --factor fp16 --factorisation cholesky --shift 4 --method "
            "gmres-ir,gmres");
    const json with = json::parse(shifted.out, nullptr, false);
    REQUIRE(with["rows"].size() == 2);
    CHECK(with["rows"][0]["lu"] == "cholesky+shift:4");
    CHECK(with["rows"][0]["verdict"] == "converged");
    CHECK(with["rows"][1]["method"] == "gmres");
    fs::remove_all(scratch());
}

TEST_CASE("solve reports that a cast overflowed, and does not call a regular matrix singular", "[program][solve]") {
    fs::remove_all(scratch());
    write("overflow.mtx", "%%MatrixMarket matrix array real general\n2 2\n70000\n1\n3\n1\n");
    const json document =
        json::parse(run("solve -q --json --matrix file:overflow.mtx --factor fp16 --scale none").out, nullptr, false);
    REQUIRE(document["rows"].size() == 3);
    for (const json& row : document["rows"]) {
        CHECK(row["verdict"] == "cast_overflow");
        CHECK(row["cast_overflow"] == 1);
    }
    // With scaling, nothing overflows. The method lu does not refine x, but the method ir does.
    const json scaled =
        json::parse(run("solve -q --json --matrix file:overflow.mtx --factor fp16 --method lu,ir").out, nullptr, false);
    CHECK(scaled["rows"][0]["verdict"] == "unrefined");
    CHECK(scaled["rows"][1]["verdict"] == "converged");
    const std::string help = run("solve --help").out;
    for (const char* name :
         {"converged", "unrefined", "stagnated", "no_reference", "diverged", "nonfinite", "indefinite", "zero_pivot",
          "singular", "factor_overflow", "cast_underflow", "cast_overflow"}) {
        CAPTURE(name);
        CHECK(help.find(std::string("  ") + name) != std::string::npos);
    }
    fs::remove_all(scratch());
}

}  // namespace solve_test
