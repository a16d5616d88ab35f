// SPDX-License-Identifier: Apache-2.0
// Tests TestFloat's text format: lines as testfloat_gen writes them, names of functions, and errors.
#include "tests/test.hpp"
#include "core/error.hpp"
#include "experiments/study/eval/testfloat_function.hpp"

namespace testfloat_test {

using namespace macheps;
using namespace macheps::study;

TEST_CASE("results and flags agree with lines of testfloat_gen", "[testfloat]") {
    struct Case {
        const char *function, *line;
        TestFloatOptions options;
    };
    constexpr TestFloatOptions plain{}, exact{.exact = true}, down{.round = Round::down};
    const Case cases[] = {
        {"f16_add", "87FF E850 E850 01", plain},
        {"f16_mulAdd", "87FF E850 0000 344F 01", plain},
        {"f16_mulAdd", "74FB E879 7BFE FC00 05", plain},
        {"f16_roundToInt", "87FF 8000 01", exact},
        {"f16_roundToInt", "87FF 8000 00", plain},
        {"f16_to_i32", "E850 FFFFF760 00", plain},
        {"f16_eq", "74FB E879 0 00", plain},
        {"i32_to_f16", "1FEFFFEF 7C00 05", plain},
        {"i32_to_f16", "FFFFC48E F36E 01", plain},
        {"ui64_to_f16", "07FFFDFFFFFFFF7F 7C00 05", plain},
        {"f16_sub", "3C00 3C00 8000 00", down},
        {"f16_sqrt", "BC00 FE00 10", plain},         // all NaNs agree
        {"f16_to_ui32", "BC00 FFFFFFFF 10", plain},  // if both conversions are invalid, any two integers agree
        {"e4m3fn_div", "38 00 7F 08", plain},
        {"tf32_mul", "3EAAA000 40400000 3F800000 01", plain},
        {"f64_to_e2m1fn", "3FF8000000000000 3 00", plain},
    };
    for (const auto& [name, line, options] : cases) {
        CAPTURE(name, line);
        const TestFloatFunction function = parse_testfloat_function(name);
        const auto expected = parse_testfloat_line(function, line);
        REQUIRE(expected);
        CHECK(agrees(function, *expected, evaluate(function, options, expected->operands)));
    }
}

TEST_CASE("a wrong bit and a wrong flag are detected", "[testfloat]") {
    for (const auto& [name, line] : {std::pair{"f16_add", "87FF E850 E851 01"},
                                     {"f16_add", "87FF E850 E850 00"},
                                     {"f16_eq", "3C00 3C00 0 00"},
                                     {"f16_to_i32", "E850 FFFFF761 00"}}) {
        CAPTURE(name, line);
        const TestFloatFunction function = parse_testfloat_function(name);
        const auto expected = parse_testfloat_line(function, line);
        REQUIRE(expected);
        CHECK_FALSE(agrees(function, *expected, evaluate(function, {}, expected->operands)));
    }
}

TEST_CASE("lines with wrong columns, digits, flags or padding are refused, and so are unknown functions",
          "[testfloat]") {
    const TestFloatFunction add = parse_testfloat_function("f16_add"), six = parse_testfloat_function("e2m3fn_add"),
                            padded = parse_testfloat_function("tf32_sqrt");
    for (const char* line : {"", "87FF E850 E850", "87FF E850 E850 01 00", "7FF E850 E850 01", "87FG E850 E850 01",
                             "87FF E850 E850 20", "87FF E850 E850 1", "+7FF E850 E850 01", "-7FF E850 E850 01"}) {
        CAPTURE(line);
        CHECK_FALSE(parse_testfloat_line(add, line));
    }
    CHECK_FALSE(parse_testfloat_line(six, "40 00 00 00"));
    CHECK_FALSE(parse_testfloat_line(padded, "3F800001 3F800000 00"));
    CHECK(parse_testfloat_line(add, " 87FF  E850 E850 01\r"));
    for (const char* name : {"", "f16", "f16_", "f17_add", "f16_pow", "i32_to_i64", "f16_to_f32_r_minMag", "i32_add"}) {
        CAPTURE(name);
        CHECK_THROWS_AS(parse_testfloat_function(name), Error);
    }
}

TEST_CASE("TestFloat lines that macheps generates are read back unchanged", "[testfloat]") {
    for (const char* name : {"f16_add", "bf16_mulAdd", "tf32_sqrt", "e4m3fn_div", "e2m1fn_mul", "f64_rem", "i64_to_f32",
                             "f32_to_ui64_r_minMag", "e5m2_le_quiet", "f64_to_f16"}) {
        CAPTURE(name);
        const TestFloatFunction function = parse_testfloat_function(name);
        for (std::uint64_t i = 0; i < 300; ++i) {
            const auto operands = testfloat_operands(function, 1 + static_cast<int>(i % 2), 7, i);
            const Rounded result = evaluate(function, {}, operands);
            const auto parsed = parse_testfloat_line(function, testfloat_line(function, operands, result));
            REQUIRE(parsed);
            CHECK(parsed->operands == operands);
            CHECK((parsed->result == result.bits && parsed->flags == result.flags));
        }
    }
}

}  // namespace testfloat_test
