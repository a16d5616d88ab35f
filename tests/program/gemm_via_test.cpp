// SPDX-License-Identifier: Apache-2.0
// Tests the rows, warnings and errors of `macheps gemm --via`.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <cmath>
#include <string>

namespace gemm_via_test {

using namespace macheps::test;
using nlohmann::json;

TEST_CASE("gemm --via reports the cost and the error of an fp64 product built from low-precision products",
          "[program][via]") {
    const Outcome rows = run(
        "gemm -q --json --via ozaki1:6 -M sm90.wgmma.fp16,sm90.wgmma.fp8+promote64 -m 3 -n 2 -k 64 --combine exact");
    CAPTURE(rows.err);
    REQUIRE(rows.code == 0);
    const json document = json::parse(rows.out, nullptr, false);
    REQUIRE(document["rows"].size() == 2);
    const json& first = document["rows"][0];
    CHECK(first["via"] == "ozaki1:6");
    CHECK(first["digit_bits"] == 10);
    CHECK(first["slices"] == 6);
    CHECK(first["products"] == 21);
    CHECK(first["inexact_products"] == 0);
    CHECK(first["combine"] == "exact");
    CHECK(first["format_a"] == "fp64");
    CHECK(first["max_error"].get<double>() < 1e-15);
    CHECK(first["fp64_error"].get<double>() < 1e-15);
    CHECK(document["rows"][1]["max_error"].get<double>() > 1e-12);
}

TEST_CASE("gemm --via gives errors in ulps of the output format, and compares with a plain product in that format",
          "[program][via]") {
    const json parts =
        json::parse(run("gemm -q --json --via bf16x9 -M sm80.mma.bf16 -m 2 -n 2 -k 64").out, nullptr, false);
    const json& row = parts["rows"][0];
    CHECK(row["output"] == "fp32");
    CHECK(row["max_ulp"].get<double>() < 16);
    CHECK(row["plain_max_ulp"].get<double>() > 0);
    CHECK(row["plain_max_ulp"].get<double>() < 256);
    CHECK(row["plain_error"].get<double>() > row["fp64_error"].get<double>());
    for (const char* bound : {"unit", "bound", "probable_bound", "lambda"}) CHECK(row[bound].is_null());
    // An fp64 output is printed with all its digits.
    const json digits =
        json::parse(run("gemm -q --json --via ozaki1:6 -M sm90.wgmma.fp16 -m 1 -n 1 -k 64").out, nullptr, false);
    const double first = digits["rows"][0]["first"].get<double>(),
                 exact = digits["rows"][0]["first_exact"].get<double>();
    CHECK(std::fabs(first - exact) <= 0x1p-52 * std::fabs(exact));
    CHECK(digits["rows"][0]["plain_error"] == digits["rows"][0]["fp64_error"]);
}

TEST_CASE("if digits are too wide to be exact, gemm --via warns and exits with 1", "[program][via]") {
    const std::string what = "gemm --via ozaki1:11 -M sm90.wgmma.fp8 -d positive -m 4 -n 4 -k 256 --digit-bits 5 ";
    const Outcome warned = run(what);
    CHECK(warned.code == 1);
    CHECK(warned.out.find("ozaki1:11,5,11,66,") != std::string::npos);
    CHECK(warned.err.find("warning: sm90.wgmma.fp8: digits of 5 bits are too wide for exact sums of 256 terms; digits "
                          "of 4 bits are not") != std::string::npos);
    CHECK(warned.err.find("are not the exact integers") != std::string::npos);
    const Outcome refused = run(what + "--require exact");
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    for (const char* bad :
         {"--via ozaki1:x", "--via bf16x9 -f fp64 -M sm80.mma.bf16", "--via ozaki1:3 -f fp16",
          "--via ozaki1:3 -M kahan:fp16", "--via ozaki2:1", "--via ozaki2:15 --full -M sm80.mma.fp16",
          "--via ozaki2:15 -M sm90.wgmma.fp8", "--via ozaki2:15 -k 4096 -M sm80.mma.fp16 --require exact",
          "--via bf16x9 -M sm90.wgmma.fp8", "--via bf16x9 -M exact.int32",
          "--via ozaki1:8 --digit-bits 8 -M exact.int32",
          "--via ozaki2:16 -k 131072 -m 1 -n 1 -M exact.int32 --require exact"}) {
        CAPTURE(bad);
        CHECK(run(std::string("gemm -q -k 8 ") + bad).code == 2);
    }
}

}  // namespace gemm_via_test
