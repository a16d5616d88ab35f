// SPDX-License-Identifier: Apache-2.0
// Tests `macheps show`: the numbers that it accepts, and its output about them.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace show_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("show prints the fields of a code, and the code's value as a fraction and in hexadecimal", "[program]") {
    const Outcome tenth = run("show 0.1 -f fp16,e4m3fn,mxint8,e8m0fnu");
    CAPTURE(tenth.out, tenth.err);
    CHECK(tenth.code == 0);
    CHECK(says(tenth.out, "format   fraction  hex         sign|exponent|fraction\n"));
    CHECK(says(tenth.out, "fp16     819/2^13  0x1.998p-4  0|01011|1001100110\n"));
    CHECK(says(tenth.out, "e4m3fn   13/2^7    0x1.ap-4    0|0011|101\n"));
    CHECK(says(tenth.out, "mxint8   3/2^5     0x1.8p-4    0||0000110\n"));
    CHECK(says(tenth.out, "e8m0fnu  1/2^3     0x1p-3      |01111100|\n"));
    CHECK(says(run("show 1000 -f fp32").out, "fp32    1000      0x1.f4p+9  0|10001000|11110100000000000000000\n"));
    CHECK(says(run("show 0x1.8p120 -f bf16").out, "3*2^119"));
    CHECK(says(run("show inf nan -f fp16").out, "0|11111|0000000000"));
    fs::remove_all(scratch());
}

TEST_CASE("show accepts fractions and formats of any width", "[program]") {
    const json third = json::parse(run("show 1/3 -2/3 -f fp16,e5m6,e3m4 --json").out);
    CHECK(third[0]["hex"] == "0x1.5555555555555p-2");
    CHECK(third[0]["formats"][0]["value"] == 0.333251953125);
    CHECK(third[0]["formats"][0]["fraction"] == "1365/2^12");
    CHECK(third[0]["formats"][1]["format"] == "e5m6");
    CHECK(third[0]["formats"][1]["code"] == "0x355");
    CHECK(third[0]["formats"][1]["fields"] == "0|01101|010101");
    CHECK(third[1]["input"] == "-2/3");
    CHECK(third[1]["hex"] == "-0x1.5555555555555p-1");
    // If a known format has the given widths, show prints the name of the known format.
    CHECK(says(run("show 1 -f e5m10").out, "fp16  "));
    struct Case {
        const char *arguments, *says;
    };
    for (const Case& c : {Case{"1/0", "'1/0' is not a valid number"}, Case{"0.5/3", "is not a valid number"},
                          Case{"1/", "is not a valid number"}, Case{"/3", "is not a valid number"},
                          Case{"1/3/5", "is not a valid number"}, Case{"1 -f e9m3", "unknown format"},
                          Case{"1 -f e4m3", "ambiguous"}, Case{"1 -f e5m0", "unknown format"}}) {
        const Outcome outcome = run(std::string("show ") + c.arguments);
        CAPTURE(c.arguments, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(says(outcome.err, c.says));
    }
    fs::remove_all(scratch());
}

TEST_CASE("show rounds the typed decimal number directly to each format, also to fp64", "[program]") {
    const json shown = json::parse(run("show 0.1 1/3 -1e-400 1e400 0.5 -f fp64,fp32 --json").out);
    // In fp64, 0.1 becomes 3602879701896397 * 2^-55. The error is 2^-55 / 5, because 5 * 3602879701896397 = 2^54 + 1.
    CHECK(shown[0]["formats"][0]["error"] == 0x1p-55 / 5);
    CHECK(shown[0]["formats"][0]["ulp_error"] == 0.4);
    CHECK(shown[0]["formats"][1]["ulp_error"].get<double>() == 0.2);
    CHECK(shown[1]["formats"][0]["ulp_error"] == 1.0 / 3);
    CHECK(shown[2]["formats"][0]["code"] == "0x8000000000000000");
    CHECK(shown[2]["formats"][0]["relative_error"] == 1);
    CHECK(shown[3]["formats"][0]["error"] == "inf");
    CHECK(shown[4]["formats"][0]["error"] == 0);
    // This number is slightly above the tie between 1 and the next fp32 number. Rounded to fp64 first, it would become
    // the tie, and then round to 1.
    const Outcome tie = run("show 1.00000005960464477539062500000000000001 -f fp32,fp64 -r nearest_even");
    CHECK(says(tie.out, "fp32    1.0000001192092896"));
    CHECK(says(tie.out, " ~ 0x1.000001p+0, nearest_even"));
    CHECK(says(run("show 0.5").out, "0.5 = 0x1p-1, nearest_even"));
    CHECK(says(run("show 0x1.00000100000000000001p0 -f fp32").out, "fp32    1.0000001192092896"));
    CHECK(says(run("show 123456789012345678901234567890/3 -f fp32").out, "fp32    4.115226463503192e+28  0x6f04f85b"));
    fs::remove_all(scratch());
}

TEST_CASE("show --csv prints a row for each number and format", "[program]") {
    const Outcome csv = run("show 0.1 1000 -f fp16,e4m3fn --csv");
    CHECK(csv.out ==
          "input,format,value,code,error,relative_error,ulp_error,below,above,fraction,hex,fields,unheld,"
          "truncated,truncated_probability,away,away_probability,away_fraction\n"
          "0.1,fp16,0.0999755859375,0x2e66,-2.44140625e-05,-0.000244140625,0.4,0."
          "09991455078125,0.10003662109375,819/2^13,"
          "0x1.998p-4,0|01011|1001100110,,,,,,\n"
          "0.1,e4m3fn,0.1015625,0x1d,0.0015625,0.015625,0.2,0.09375,0.109375,13/"
          "2^7,"
          "0x1.ap-4,0|0011|101,,,,,,\n"
          "1000,fp16,1000,0x63d0,0,0,0,999.5,1000.5,1000,0x1.f4p+9,0|11000|1111010000,,,,,,\n"
          "1000,e4m3fn,nan,0x7f,nan,nan,nan,,,nan,nan,0|1111|111,,,,,,\n");
    CHECK(run("show 1 --csv --json").code == 2);
    CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 5);
    fs::remove_all(scratch());
}

namespace {

/// Describes a format independently of the library: number of sign, exponent and fraction bits, bias, and special
/// values.
struct Fields {
    const char* name;
    int sign, exponent, fraction, bias;
    enum { ieee, one_nan, fnuz, finite, scale, integer } kind;
    int bits() const { return sign + exponent + fraction; }
};
constexpr Fields all_fields[] = {
    {"fp16", 1, 5, 10, 15, Fields::ieee},       {"bf16", 1, 8, 7, 127, Fields::ieee},
    {"e4m3fn", 1, 4, 3, 7, Fields::one_nan},    {"e5m2", 1, 5, 2, 15, Fields::ieee},
    {"e4m3fnuz", 1, 4, 3, 8, Fields::fnuz},     {"e5m2fnuz", 1, 5, 2, 16, Fields::fnuz},
    {"e4m3b11fnuz", 1, 4, 3, 11, Fields::fnuz}, {"e3m4", 1, 3, 4, 3, Fields::ieee},
    {"e4m3ieee", 1, 4, 3, 7, Fields::ieee},     {"e8m0fnu", 0, 8, 0, 127, Fields::scale},
    {"e2m3fn", 1, 2, 3, 1, Fields::finite},     {"e3m2fn", 1, 3, 2, 3, Fields::finite},
    {"e2m1fn", 1, 2, 1, 1, Fields::finite},     {"mxint8", 1, 0, 7, 0, Fields::integer},
};

std::string hex_of(const Fields& f, int code) {
    std::ostringstream text;
    text << "0x" << std::hex << std::setfill('0') << std::setw((f.bits() + 3) / 4) << code;
    return text.str();
}

double value_of(const Fields& f, int code) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    const int fractions = 1 << f.fraction, exponents = 1 << f.exponent;
    if (f.kind == Fields::scale) return code == 255 ? nan : std::ldexp(1.0, code - f.bias);
    if (f.kind == Fields::integer) return (code < 128 ? code : code - 256) / 64.0;
    const int fraction = code % fractions, exponent = code / fractions % exponents;
    const double sign = code / fractions / exponents != 0 ? -1 : 1;
    if (f.kind == Fields::fnuz && code == fractions * exponents) return nan;
    if (f.kind == Fields::ieee && exponent == exponents - 1) return fraction == 0 ? sign * infinity : nan;
    if (f.kind == Fields::one_nan && code % (fractions * exponents) == fractions * exponents - 1) return nan;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - f.bias - f.fraction);
    return sign * std::ldexp(fractions + fraction, exponent - f.bias - f.fraction);
}

}  // namespace

TEST_CASE("show prints every typed code of every format of up to 16 bits unchanged", "[program]") {
    for (const Fields& f : all_fields) {
        CAPTURE(f.name);
        constexpr int piece = 1 << 13;  // the length of a command line is limited
        int wrong = 0;
        for (int first = 0; first < 1 << f.bits(); first += piece) {
            const int end = std::min(first + piece, 1 << f.bits());
            std::string codes;
            for (int code = first; code < end; ++code) codes += " " + hex_of(f, code);
            const Outcome shown = run("show" + codes + " --bits " + f.name + " -f " + f.name + " --csv");
            REQUIRE(shown.code == 0);
            std::istringstream lines(shown.out);
            std::string line;
            std::getline(lines, line);
            for (int code = first; code < end; ++code) {
                REQUIRE(std::getline(lines, line));
                std::vector<std::string> cells;
                std::istringstream cell_text(line);
                for (std::string cell; std::getline(cell_text, cell, ',');) cells.push_back(cell);
                REQUIRE(cells.size() >= 12);
                // Columns: input, format, value, code, error, relative_error, ulp_error, below, above, fraction, hex,
                // fields
                const double want = value_of(f, code), got = std::strtod(cells[2].c_str(), nullptr);
                const bool same =
                    std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
                std::string digits;
                for (const char c : cells[11]) digits += c == '|' ? "" : std::string(1, c);
                std::string bits;
                for (int i = f.bits() - 1; i >= 0; --i) bits += (code >> i & 1) != 0 ? '1' : '0';
                const bool right = same && cells[3] == cells[0] && digits == bits && cells[4] == "0" && cells[6] == "0";
                if (!right && wrong++ < 10) UNSCOPED_INFO(line);
            }
        }
        CHECK(wrong == 0);
    }
    // A typed NaN keeps its code in its own format, and becomes a NaN in other formats that have one.
    const json shown = json::parse(run("show 0x7fff --bits bf16 -f bf16,fp16,e2m1fn --json").out);
    CHECK(shown[0]["formats"][0]["code"] == "0x7fff");
    CHECK(shown[0]["formats"][1]["code"] == "0x7e00");
    CHECK(shown[0]["formats"][2]["unheld"] == json::array({"nan"}));
    CHECK(says(run("show 0x3f801fff --bits tf32 -f tf32").out, "0x3f801fff"));
    fs::remove_all(scratch());
}

TEST_CASE("show prints the random bits that stochastic rounding used", "[program]") {
    CHECK(says(run("show 0.1 -f bf16 --round stochastic").out, ", stochastic with the random bits 0x00000000\n"));
    CHECK(says(run("show 0.1 -f bf16 -r sr --random 4294967295").out, ", sr with the random bits 0xffffffff\n"));
    CHECK(json::parse(run("show 0.1 -f bf16 -r sr --random 7 --json").out)[0]["random"] == 7);
    CHECK(json::parse(run("show 0.1 -f bf16 --json").out)[0]["random"].is_null());
    fs::remove_all(scratch());
}

TEST_CASE("show prints both results of stochastic rounding and their exact probabilities", "[program]") {
    // The neighbours of 0.1 in bf16 are 204 and 205 times 2^-11, and 0.1 is 204.8 times 2^-11.
    const Outcome tenth = run("show 0.1 -f bf16,fp32 --round stochastic");
    CAPTURE(tenth.out);
    CHECK(says(tenth.out,
               "bf16    0.099609375          0x3dcc      0.2          0.10009765625        0x3dcd      0.8  "
               "        4/5\n"));
    struct Case {
        const char *arguments, *truncated, *away, *probability;  // `away` is empty if the result is certain
    };
    for (const Case& c : {
             Case{"0.1 -f bf16", "0x3dcc", "0x3dcd", "4/5"},
             Case{"-0.1 -f bf16", "0xbdcc", "0xbdcd", "4/5"},
             Case{"0.1 -f fp64", "0x3fb9999999999999", "0x3fb999999999999a", "3/5"},  // 0.1 = 7205759403792793.6 2^-56
             Case{"1/3 -f e2m1fn", "0x0", "0x1", "2/3"},                              // between 0 and 0.5
             Case{"1.5 -f e2m1fn", "0x3", "", "0"},                                   // exact
             Case{"5 -f e2m1fn", "0x6", "0x7", "1/2"},                                // between 4 and 6
             Case{"7 -f e2m1fn", "0x7", "", "0"},                                     // saturates
             Case{"456 -f e4m3fn", "0x7e", "0x7f", "1/4"},      // between 448 and the next multiple of 32, which is NaN
             Case{"456 -f e4m3fn -s", "0x7e", "", "0"},         // saturates
             Case{"480 -f e4m3fn", "0x7f", "", "0"},            // always overflows
             Case{"65512 -f fp16", "0x7bff", "0x7c00", "1/4"},  // between 65504 and 65536, which is infinity
             Case{"-65512 -f fp16", "0xfbff", "0xfc00", "1/4"},
             Case{"-inf -f fp16", "0xfc00", "", "0"},
             Case{"nan -f fp16", "0x7e00", "", "0"},
             Case{"-0 -f fp16", "0x8000", "", "0"},
             Case{"2.5 -f e8m0fnu", "0x80", "0x81", "1/4"},                 // between 2 and 4
             Case{"-2.5 -f e8m0fnu", "0x80", "0x81", "1/4"},                // the magnitude is rounded
             Case{"0x1.8p127 -f e8m0fnu", "0xfe", "0xff", "1/2"},           // between 2^127 and 2^128, which is NaN
             Case{"3/128 -f mxint8", "0x01", "0x02", "1/2"},                // multiples of 1/64
             Case{"1.99 -f mxint8", "0x7f", "", "0"},                       // saturates at 127/64
             Case{"0x1p-26 -f fp16", "0x0000", "0x0001", "1/4"},            // the smallest subnormal number is 2^-24
             Case{"0x1p-60 -f fp16", "0x0000", "0x0001", "1/68719476736"},  // below 2^-32
         }) {
        CAPTURE(c.arguments);
        const json row = json::parse(run(std::string("show --json -r sr ") + c.arguments).out)[0]["formats"][0];
        CAPTURE(row.dump());
        const json& results = row["stochastic"];
        CHECK(results[0]["code"] == c.truncated);
        REQUIRE(results.size() == (*c.away == 0 ? 1 : 2));
        if (*c.away == 0) {
            CHECK(results[0]["probability"] == 1);
            CHECK(results[0]["random_words"] == std::uint64_t{1} << 32);
            continue;
        }
        CHECK(results[1]["code"] == c.away);
        CHECK(results[1]["fraction"] == c.probability);
        CHECK(results[0]["random_words"].get<std::uint64_t>() + results[1]["random_words"].get<std::uint64_t>() ==
              std::uint64_t{1} << 32);
    }
    CHECK(json::parse(run("show 0.1 -f bf16 --json").out)[0]["formats"][0]["stochastic"].is_null());
    CHECK(says(run("show 0.1 1 -f bf16 -r sr --csv").out, ",0.099609375,0.2,0.10009765625,0.8,4/5\n1,bf16,1,"));
    CHECK(says(run("show 0.1 1 -f bf16 -r sr --csv").out, ",1,1,,0,0\n"));
    CHECK(says(run("show 0x1p-60 -f fp16 -r sr").out, " >0.999999  "));
    fs::remove_all(scratch());
}

TEST_CASE("the number of random words that show prints for a result is the number of words that give it", "[program]") {
    // A larger word never rounds closer to zero, so the words at the boundary prove the number.
    for (const char* x : {"0.1", "-1/3", "1e-3", "3e38", "7.7", "100", "1e-45", "-440.3", "0x1.fffffffffp-1"}) {
        const json all = json::parse(run(std::string("show ") + x + " -r sr --json").out)[0]["formats"];
        for (const json& row : all) {
            const json& results = row["stochastic"];
            if (results.size() == 1) continue;
            const std::string format = row["format"];
            const auto words = results[1]["random_words"].get<std::uint64_t>();
            CAPTURE(x, format, words);
            const auto code_of = [&](std::uint64_t word) {
                const Outcome shown =
                    run(std::string("show ") + x + " -f " + format + " -r sr --json --random " + std::to_string(word));
                return json::parse(shown.out)[0]["formats"][0]["code"];
            };
            const std::uint64_t first = (std::uint64_t{1} << 32) - words;  // the first word that rounds away from zero
            if (words > 0) CHECK(code_of(first) == results[1]["code"]);
            CHECK(code_of(first - 1) == results[0]["code"]);
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("show names the formats that cannot represent the sign, zero, NaN or infinity of a number", "[program]") {
    struct Case {
        const char *arguments, *says;
    };
    for (const Case& c :
         {Case{"-3 -f e8m0fnu,bf16", "\nno sign: e8m0fnu (4)\n"},
          Case{"0 -f e8m0fnu,e4m3fnuz", "\nno zero: e8m0fnu (5.877471754111438e-39)\n"},
          Case{"-0 -f e4m3fnuz,mxint8,e2m1fn", "\nno -0: e4m3fnuz (0), mxint8 (0)\n"},
          Case{"nan -f e2m1fn,e4m3fn", "\nno NaN: e2m1fn (6)\n"},
          Case{"-inf -f e8m0fnu,e2m3fn,fp16", "\nno infinity: e8m0fnu (nan), e2m3fn (-7.5)\nno sign: e8m0fnu (nan)\n"},
          // fp64 rounds this number to zero, but show must not treat the number as zero.
          Case{"-1e-400 -f e8m0fnu,e4m3fnuz,bf16", "\n\nno sign: e8m0fnu (5.877471754111438e-39)\n"}}) {
        const Outcome shown = run(std::string("show ") + c.arguments);
        CAPTURE(c.arguments, shown.out);
        CHECK(says(shown.out, c.says));
    }
    CHECK_FALSE(says(run("show -3 -f bf16,e2m1fn").out, "\nno "));
    CHECK_FALSE(says(run("show -1e-400 -f e4m3fnuz").out, "\nno "));
    CHECK_FALSE(says(run("show 1e400 -f e2m1fn,e8m0fnu").out, "\nno "));
    CHECK(says(run("show -inf -f e8m0fnu --csv").out, ",inf sign,,,,,\n"));
    fs::remove_all(scratch());
}

}  // namespace show_test
