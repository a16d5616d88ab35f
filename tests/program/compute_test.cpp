// SPDX-License-Identifier: Apache-2.0
// Tests `macheps compute`. The expected numbers are those of IEEE 754, computed by this processor or by hand.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <cmath>
#include <string>

namespace compute_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

/// Runs `macheps compute "EXPRESSION" --json OPTIONS`, and returns the row of the only or first format.
json first_row(const std::string& expression, const std::string& options) {
    const Outcome outcome = run("compute '" + expression + "' --json " + options);
    CAPTURE(expression, outcome.err);
    REQUIRE(outcome.code == 0);
    return json::parse(outcome.out).at("formats").at(0);
}

}  // namespace

TEST_CASE("compute rounds the operands, computes exactly, and rounds once", "[program]") {
    struct Case {
        const char *expression, *options, *result;
        std::vector<std::string> flags;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"0.1 + 0.2", "-f fp64", "0.30000000000000004", {"inexact"}, "the classic"},
             {"0.1 + 0.2", "-f e4m3fn", "0.3125", {"inexact"}, "0.1015625 + 0.203125 lies between 0.28125 and 0.3125"},
             {"0.1+0.2", "-f fp64", "0.30000000000000004", {"inexact"}, "no spaces"},
             {"1e-3-1e-3", "-f fp32", "0", {}, "signs that belong to numbers"},
             {"-2 - -3", "-f fp16", "1", {}, "signs that belong to numbers"},
             {"1/3 / 3", "-f fp32", "0.11111111", {"inexact"}, "a fraction as an operand"},
             {"1 / 3", "-f fp16", "0.333251953125", {"inexact"}, "spaces make it an operation"},
             {"2 × 3", "-f bf16", "6", {}, "the mathematical sign"},
             {"sqrt(2)", "-f fp32 --round up", "1.4142137", {"inexact"}, "rounded up"},
             {"sqrt(2)", "-f fp32 --round down", "1.4142135", {"inexact"}, "rounded down"},
             {"sqrt(-1)", "-f fp32", "nan", {"invalid"}, "no real root"},
             {"fma(0.1, 10, -1)", "-f fp64", "5.551115123125783e-17", {}, "one rounding; 0.1 * 10 - 1 would give 0"},
             {"300 * 300", "-f fp16", "inf", {"overflow", "inexact"}, "above 65504"},
             {"300 * 300", "-f fp16 --saturate", "65504", {"overflow", "inexact"}, "the largest number"},
             {"1e-7 * 0.1", "-f fp16", "0", {"underflow", "inexact"}, "below half of the smallest number"},
             {"1 / 0", "-f fp16", "inf", {"divide_by_zero"}, "an exact infinity"},
             {"inf - inf", "-f fp16", "nan", {"invalid"}, "undefined"},
             {"1 + 2", "-f e8m0fnu", "4", {"inexact"}, "powers of two only; 3 is halfway, and 4 has the even code"}}) {
        CAPTURE(c.expression, c.options, c.why);
        const json row = first_row(c.expression, c.options);
        CAPTURE(row.dump());
        const json& value = row.at("result").at("value");
        const std::string text = value.is_string() ? value.get<std::string>() : "";
        if (text.empty()) {
            const double wanted = std::stod(c.result);
            // Results of fp32 are written with 8 digits here, which identify an fp32 number.
            const bool is_fp32 = row.at("format") == "fp32";
            CHECK((is_fp32 ? static_cast<float>(wanted) == static_cast<float>(value.get<double>())
                           : wanted == value.get<double>()));
        } else {
            CHECK(text == c.result);
        }
        CHECK(row.at("flags").get<std::vector<std::string>>() == c.flags);
    }
    fs::remove_all(scratch());
}

TEST_CASE("compute measures errors against the exact result of the rounded operands", "[program]") {
    const json sum = first_row("0.1 + 0.2", "-f fp64");
    CHECK(sum["exact"] == 0.30000000000000004);  // the exact sum, rounded to fp64
    CHECK(sum["exact_is_rounded"] == true);
    CHECK(sum["error"] == 0x1p-55);  // exactly half a unit in the last place
    CHECK(sum["ulp_error"] == 0.5);
    CHECK(sum["operands"][0]["code"] == "0x3fb999999999999a");
    const json root = first_row("sqrt(2)", "-f fp32");
    const double exact = 1.41421356237309504880, rounded = std::sqrt(2.0F);
    CHECK(root["exact"] == exact);
    CHECK(std::fabs(root["error"].get<double>() - (rounded - exact)) < 1e-16);
    const json quotient = first_row("1 / 3", "-f bf16");
    CHECK(std::fabs(quotient["error"].get<double>() - (0.333984375 - 1.0 / 3)) < 1e-16);
    for (const char* undefined : {"1 / 0", "inf - inf", "sqrt(-1)", "nan + 1"}) {
        CAPTURE(undefined);
        CHECK(first_row(undefined, "-f fp16")["exact"].is_null());
    }
    const Outcome table = run("compute '0.1 + 0.2' -f e4m3fn,fp64");
    CHECK(table.code == 0);
    CHECK(table.out.find("e4m3fn  0.1015625  0.203125  0.3125") != std::string::npos);
    CHECK(json::parse(run("compute '1 + 1' --json").out).at("formats").size() ==
          json::parse(run("formats --json").out).size());
    fs::remove_all(scratch());
}

TEST_CASE("compute refuses texts that are not one operation", "[program]") {
    for (const char* wrong :
         {"1", "1 +", "1 + 2 + 3", "sqrt()", "sqrt(1, 2)", "fma(1, 2)", "a + b", "1 ^ 2", "1/2/3", ""}) {
        CAPTURE(wrong);
        const Outcome outcome = run(std::string("compute '") + wrong + "'");
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.out.empty());
    }
    fs::remove_all(scratch());
}

}  // namespace compute_test
