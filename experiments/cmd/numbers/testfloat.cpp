// SPDX-License-Identifier: Apache-2.0
// `macheps testfloat`: checks the lines of Berkeley TestFloat's testfloat_gen against core/arithmetic.hpp, or writes
// such lines.
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/study/eval/testfloat_function.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd::testfloat {

using namespace study;

namespace {

constexpr const char* help = R"(Checks lines in the text format of Berkeley TestFloat on stdin, or writes such lines.

Examples:
  testfloat_gen f16_mulAdd | macheps testfloat f16_mulAdd       check results and flags
  testfloat_gen -rmin f64_div | macheps testfloat -rmin f64_div
  macheps testfloat bf16_add --generate | my_adder_test         cases for your own implementation)";

constexpr const char* notes = R"(Functions:
  FORMAT_OPERATION  OPERATION is add, sub, mul, div, sqrt, mulAdd, rem, roundToInt, eq, le, lt,
                    eq_signaling, le_quiet or lt_quiet
  TYPE_to_TYPE      a conversion
  FORMAT is f16, f32, f64 or a name from `macheps formats`. TYPE can also be i32, i64, ui32 or
  ui64.

Lines:
  A line contains operands, result and flags in hexadecimal. Flags are added up: 1 inexact, 2
  underflow, 4 overflow, 8 divide by zero, 16 invalid. Any two NaNs agree, and so do two integers
  that are both invalid.

Exit codes:
  1  a result or a flag differs)";

constexpr std::pair<std::string_view, Round> modes[] = {{"near_even", Round::nearest_even},
                                                        {"near_maxMag", Round::nearest_away},
                                                        {"minMag", Round::toward_zero},
                                                        {"min", Round::down},
                                                        {"max", Round::up},
                                                        {"odd", Round::to_odd}};

struct Arguments {
    std::string function, round = "near_even", tininess = "after";
    bool exact = false, notexact = false, generate = false;
    std::uint64_t count = 10000, errors = 20, seed = 1;
    int level = 1;
};

Exit check(const TestFloatFunction& function, const TestFloatOptions& options, const Arguments& a) {
    std::ios::sync_with_stdio(false);
    std::uint64_t number = 0, compared = 0, mismatches = 0;
    for (std::string line; std::getline(std::cin, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        const auto expected = parse_testfloat_line(function, line);
        if (!expected) {
            throw Error(
                {.what = fmt::format("the line is not a valid case of {}: '{}'", function.name, line.substr(0, 80)),
                 .where = fmt::format("stdin:{}", number),
                 .fix =
                     fmt::format("write it as in {}", testfloat_line(function, {}, evaluate(function, options, {})))});
        }
        ++compared;
        const Rounded ours = evaluate(function, options, expected->operands);
        if (agrees(function, *expected, ours)) continue;
        if (++mismatches <= a.errors) {
            const Rounded theirs{expected->result, expected->flags};
            print("stdin:{}: {}, ours {}\n", number, testfloat_line(function, expected->operands, theirs),
                  testfloat_line(function, expected->operands, ours));
        }
    }
    if (std::cin.bad()) throw Error({.what = "cannot read", .where = "stdin"});
    if (compared == 0) {
        throw Error({.what = "there are no cases",
                     .where = "stdin",
                     .fix = "pipe the output of testfloat_gen, or use --generate"});
    }
    print("{} {}: {} cases, {} mismatches\n", function.name, a.round, compared, mismatches);
    return mismatches == 0 ? Exit::ok : Exit::check_failed;
}

Exit generate(const TestFloatFunction& function, const TestFloatOptions& options, const Arguments& a) {
    for (std::uint64_t i = 0; i < a.count; ++i) {
        const auto operands = testfloat_operands(function, a.level, a.seed, i);
        print("{}\n", testfloat_line(function, operands, evaluate(function, options, operands)));
    }
    return Exit::ok;
}

Exit run(const Arguments& a) {
    const TestFloatFunction function = parse_testfloat_function(a.function);
    const auto mode =
        std::find_if(std::begin(modes), std::end(modes), [&](const auto& row) { return row.first == a.round; });
    const TestFloatOptions options{
        mode->second, a.tininess == "before" ? Tininess::before_rounding : Tininess::after_rounding, a.exact};
    return a.generate ? generate(function, options, a) : check(function, options, a);
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("function", a->function, "Function, named as in testfloat_gen").required();
    std::vector<std::string> rounds;
    for (const auto& [name, mode] : modes) rounds.emplace_back(name);
    verb.option("-r,--round", a->round, "Rounding mode; -rminMag is the same as --round minMag")
        .one_of(rounds)
        .shows_default();
    verb.option("--tininess", a->tininess, "Detect underflow before or after rounding")
        .one_of({"before", "after"})
        .shows_default();
    const Option exact = verb.flag("--exact", a->exact, "Raise inexact when rounding to integers");
    verb.flag("--notexact", a->notexact, "Do not raise inexact when rounding to integers (the default)")
        .excludes(exact);
    verb.flag("--generate", a->generate, "Write cases instead of checking them");
    verb.integer("--count", a->count, {}, "Number of cases to write").shows_default();
    verb.integer("--level", a->level, {1, 2}, "1: more special operands. 2: more operands next to special operands")
        .shows_default();
    verb.integer("--seed", a->seed, seed_limits, "Seed of the operands to write").shows_default();
    verb.integer("--errors", a->errors, {}, "Maximum number of mismatches to print").shows_default();
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"testfloat", help, describe, notes};

}  // namespace macheps::cmd::testfloat
