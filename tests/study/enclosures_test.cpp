// SPDX-License-Identifier: Apache-2.0
// Compares results and references of formulas and functions with MPFR, in five formats and five rounding modes.
#include "core/host/float_environment.hpp"
#include "experiments/study/eval/enclosure.hpp"
#include "experiments/study/eval/format.hpp"
#include "experiments/study/eval/walk.hpp"
#include "tests/study/mpfr_formula.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <random>

namespace enclosures_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::test;

namespace {

struct FormatPair {
    Format format;
    BinaryFormat figures;
};
const FormatPair pairs[] = {{fp64, {"fp64", 53, -1022, 1023}},
                            {fp32, {"fp32", 24, -126, 127}},
                            {bf16, {"bf16", 8, -126, 127}},
                            {fp16, {"fp16", 11, -14, 15}},
                            {{.bits = 12, .precision = 7, .exponent_bias = 15}, {"e5m6", 7, -14, 15}}};
constexpr Round modes[] = {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up, Round::down};

int log_gamma(mpfr_ptr out, mpfr_srcptr x, mpfr_rnd_t mode) {
    int sign = 0;
    return mpfr_lgamma(out, &sign, x, mode);
}
template <int (*function)(mpfr_ptr, mpfr_srcptr)>
int whole(mpfr_ptr out, mpfr_srcptr x, mpfr_rnd_t) {
    // The result is an integer below 2^1025, so it is exact with 2200 bits.
    mpfr_set_prec(out, 2200);
    function(out, x);
    return 0;
}

struct FunctionRow {
    const char* name;
    MpfrOne function;
    double least = -HUGE_VAL, greatest = HUGE_VAL;  ///< inputs outside this range would take MPFR minutes
};
const FunctionRow functions[] = {{"sqrt", mpfr_sqrt},
                                 {"fabs", mpfr_abs},
                                 {"floor", whole<mpfr_floor>},
                                 {"ceil", whole<mpfr_ceil>},
                                 {"trunc", whole<mpfr_trunc>},
                                 {"round", whole<mpfr_round>},
                                 {"nearbyint", whole<mpfr_roundeven>},
                                 {"exp", mpfr_exp},
                                 {"exp2", mpfr_exp2},
                                 {"expm1", mpfr_expm1},
                                 {"log", mpfr_log},
                                 {"log2", mpfr_log2},
                                 {"log10", mpfr_log10},
                                 {"log1p", mpfr_log1p},
                                 {"sin", mpfr_sin},
                                 {"cos", mpfr_cos},
                                 {"tan", mpfr_tan},
                                 {"asin", mpfr_asin},
                                 {"acos", mpfr_acos},
                                 {"atan", mpfr_atan},
                                 {"sinh", mpfr_sinh},
                                 {"cosh", mpfr_cosh},
                                 {"tanh", mpfr_tanh},
                                 {"asinh", mpfr_asinh},
                                 {"acosh", mpfr_acosh},
                                 {"atanh", mpfr_atanh},
                                 {"cbrt", mpfr_cbrt},
                                 {"erf", mpfr_erf},
                                 {"erfc", mpfr_erfc},
                                 {"tgamma", mpfr_gamma, -1000, 1e6},
                                 {"lgamma", log_gamma, -1000, 1e15}};

struct PairRow {
    const char* name;
    MpfrTwo function;
};
const PairRow pair_functions[] = {{"pow", mpfr_pow},
                                  {"atan2", mpfr_atan2},
                                  {"hypot", mpfr_hypot},
                                  {"fmod", mpfr_fmod},
                                  {"remainder", mpfr_remainder},
                                  {"fdim", mpfr_dim},
                                  {"fmin", mpfr_min},
                                  {"fmax", mpfr_max},
                                  {"copysign", mpfr_copysign}};

struct FormulaCase {
    const char* text;
    Mp (*value)(const Mp& x);
};
const FormulaCase formulas[] = {
    {"x*x*x*x", [](const Mp& x) { return x * x * x * x; }},
    {"(1+x)-1", [](const Mp& x) { return (Mp(1) + x) - Mp(1); }},
    {"(1-cos(x))/(x*x)", [](const Mp& x) { return (Mp(1) - call(mpfr_cos, x)) / (x * x); }},
    {"exp(x)-1", [](const Mp& x) { return call(mpfr_exp, x) - Mp(1); }},
    {"1+0.00390625+exp(x)", [](const Mp& x) { return Mp(1) + Mp(0.00390625) + call(mpfr_exp, x); }},
    {"log(1+exp(x))", [](const Mp& x) { return call(mpfr_log, Mp(1) + call(mpfr_exp, x)); }},
    {"1/(1+exp(0-x))", [](const Mp& x) { return Mp(1) / (Mp(1) + call(mpfr_exp, Mp(0) - x)); }},
    {"sqrt(x+1)-sqrt(x)", [](const Mp& x) { return call(mpfr_sqrt, x + Mp(1)) - call(mpfr_sqrt, x); }},
    {"1/(x+1)-2/x+1/(x-1)", [](const Mp& x) { return Mp(1) / (x + Mp(1)) - Mp(2) / x + Mp(1) / (x - Mp(1)); }},
    {"(exp(x)-exp(0-x))/2", [](const Mp& x) { return (call(mpfr_exp, x) - call(mpfr_exp, Mp(0) - x)) / Mp(2); }},
    {"sinh(x)/cosh(x)", [](const Mp& x) { return call(mpfr_sinh, x) / call(mpfr_cosh, x); }},
    {"(x-sin(x))/(x*x*x)", [](const Mp& x) { return (x - call(mpfr_sin, x)) / (x * x * x); }},
    {"1/x-1/tan(x)", [](const Mp& x) { return Mp(1) / x - Mp(1) / call(mpfr_tan, x); }},
    {"sin(x)*sin(x)+cos(x)*cos(x)",
     [](const Mp& x) { return call(mpfr_sin, x) * call(mpfr_sin, x) + call(mpfr_cos, x) * call(mpfr_cos, x); }},
    {"x/sqrt(x*x+1)", [](const Mp& x) { return x / call(mpfr_sqrt, x * x + Mp(1)); }},
    {"log(x+1)/x", [](const Mp& x) { return call(mpfr_log, x + Mp(1)) / x; }},
    {"pow(1+1/x, x)", [](const Mp& x) { return call(mpfr_pow, Mp(1) + Mp(1) / x, x); }},
    {"exp(x)/exp(x-1)", [](const Mp& x) { return call(mpfr_exp, x) / call(mpfr_exp, x - Mp(1)); }},
    {"log(x)-log(x+1)", [](const Mp& x) { return call(mpfr_log, x) - call(mpfr_log, x + Mp(1)); }},
    {"atan(x+1)-atan(x)", [](const Mp& x) { return call(mpfr_atan, x + Mp(1)) - call(mpfr_atan, x); }},
    {"cbrt(x+1)-cbrt(x)", [](const Mp& x) { return call(mpfr_cbrt, x + Mp(1)) - call(mpfr_cbrt, x); }},
    {"erf(x)-1", [](const Mp& x) { return call(mpfr_erf, x) - Mp(1); }},
    {"x-x*x*x/6", [](const Mp& x) { return x - x * x * x / Mp(6); }},
    {"(x*x-1)/(x-1)", [](const Mp& x) { return (x * x - Mp(1)) / (x - Mp(1)); }},
    {"x/3*3", [](const Mp& x) { return x / Mp(3) * Mp(3); }},
    {"hypot(x,1)-fabs(x)", [](const Mp& x) { return call(mpfr_hypot, x, Mp(1)) - call(mpfr_abs, x); }},
    {"tanh(x)*2-1", [](const Mp& x) { return call(mpfr_tanh, x) * Mp(2) - Mp(1); }},
    {"exp2(x)*exp2(0-x)", [](const Mp& x) { return call(mpfr_exp2, x) * call(mpfr_exp2, Mp(0) - x); }},
    {"asin(x)+acos(x)", [](const Mp& x) { return call(mpfr_asin, x) + call(mpfr_acos, x); }},
    {"log1p(x)-log(1+x)", [](const Mp& x) { return call(mpfr_log1p, x) - call(mpfr_log, Mp(1) + x); }},
    {"x*x-2*x+1", [](const Mp& x) { return x * x - Mp(2) * x + Mp(1); }},
    {"fmax(x,0)+log1p(exp(0-fabs(x)))",
     [](const Mp& x) {
         return call(mpfr_max, x, Mp(0)) + call(mpfr_log1p, call(mpfr_exp, Mp(0) - call(mpfr_abs, x)));
     }},
};

/// Returns numbers at the limits of the format, critical arguments of the functions, and random numbers. It draws
/// `drawn` random codes, and keeps those of finite numbers.
std::vector<double> inputs_of(const FormatPair& pair, int drawn) {
    const BinaryFormat& f = pair.figures;
    const double u = std::ldexp(1.0, 1 - f.precision), least = std::ldexp(1.0, f.emin - f.precision + 1);
    std::vector<double> all;
    for (const double x : {0.0,
                           1.0,
                           2.0,
                           3.0,
                           10.0,
                           0.5,
                           1 + u,
                           1 - u / 2,
                           1.5 + u,
                           f.largest(),
                           f.largest() / 2,
                           std::ldexp(1.0, f.emin),
                           least,
                           3 * least,
                           std::ldexp(1.0, f.emax / 2),
                           std::ldexp(1.0, f.emin / 2),
                           88.0,
                           304.0,
                           164.0,
                           0.25,
                           20.0,
                           std::ldexp(1 + u, -f.precision)}) {
        const double rounded = decode64(pair.format, encode64(pair.format, x, Round::nearest_even, Overflow::saturate));
        all.insert(all.end(), {rounded, -rounded});
    }
    std::mt19937_64 random(static_cast<unsigned>(f.precision));
    for (int i = 0; i < drawn; ++i) {
        const double x = decode64(pair.format, random() & (pair.format.sign_bit() | pair.format.magnitude_mask()));
        if (std::isfinite(x)) all.push_back(x);
        const double near = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 12) - 57);
        const double either = (random() & 1) != 0 ? near : -near;
        all.push_back(decode64(pair.format, encode64(pair.format, either, Round::nearest_even, Overflow::saturate)));
    }
    return all;
}

bool is_same(double a, double b) { return a == b || (a != a && b != b); }

struct Counts {
    std::size_t compared = 0, wrong_results = 0, wrong_references = 0, unresolved = 0, unresolved_alone = 0,
                unknown = 0;
};

/// Returns whether MPFR can round a value correctly with as many digits as an enclosure may use. MPFR gets twice as
/// many bits, because Mp::rounded() counts half of them as lost to cancellation.
template <class Value>
bool is_settled(const FormatPair& pair, Round mode, const Value& value) {
    mpfr_context = {.bits = 2 * max_enclosure_bits(pair.format)};
    const bool is_known = value().rounded(pair.figures, mode).has_value();
    mpfr_context = {};
    return is_known;
}

/// Compares one formula at one input in all rounding modes. `exact` is its exact value. `value` computes the formula in
/// the current MpfrContext, for example with a rounding after each operation.
template <class Value>
void compare(const FormatPair& pair, const Expression& expression, const std::vector<double>& inputs, const Mp& exact,
             const Value& value, Counts& counts) {
    for (const Round mode : modes) {
        ++counts.compared;
        mpfr_context = {.bits = 256, .format = &pair.figures, .mode = mode};
        const double expected = value().to_double();
        const std::optional<double> reference = exact.rounded(pair.figures, mode);
        mpfr_context = {};
        FormatSystem system(pair.format, mode, Functions::correct, false, {});
        const double result = Walk(system, expression).value(inputs);
        const auto got = reference_value(expression, pair.format, mode, inputs);
        CAPTURE(expression.text, pair.figures.name, static_cast<int>(mode), inputs, result, expected);
        const bool is_right = system.is_unresolved() || is_same(result, expected);
        counts.wrong_results += !is_right;
        counts.unresolved += system.is_unresolved() || !got;
        const bool is_unresolved_alone = system.is_unresolved() || (!got && reference && is_settled(pair, mode, value));
        counts.unresolved_alone += is_unresolved_alone;
        if (counts.unresolved_alone < 10) CHECK(!is_unresolved_alone);
        if (counts.wrong_results + counts.wrong_references < 10) CHECK(is_right);
        counts.unknown += !reference;
        if (!got || !reference) continue;
        CAPTURE(got->rounded, *reference);
        const bool is_reference_right = is_same(got->rounded, *reference);
        counts.wrong_references += !is_reference_right;
        if (counts.wrong_results + counts.wrong_references < 10) CHECK(is_reference_right);
    }
}

Counts compare_functions(int drawn) {
    const DefaultFloatModes float_modes;
    Counts counts;
    for (const FormatPair& pair : pairs) {
        const std::vector<double> inputs = inputs_of(pair, drawn);
        for (const FunctionRow& row : functions) {
            const Expression expression = parse_infix(std::string(row.name) + "(x)");
            for (const double x : inputs) {
                if (x < row.least || x > row.greatest) continue;
                const auto value = [&] { return call(row.function, Mp(x)); };
                compare(pair, expression, {x}, value(), value, counts);
            }
        }
        for (const PairRow& row : pair_functions) {
            const Expression expression = parse_infix(std::string(row.name) + "(x,y)");
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                const double x = inputs[i], y = inputs[(7 * i + 3) % inputs.size()];
                const auto value = [&] { return call(row.function, Mp(x), Mp(y)); };
                compare(pair, expression, {x, y}, value(), value, counts);
            }
        }
    }
    return counts;
}

Counts compare_formulas(int drawn, mpfr_prec_t bits) {
    const DefaultFloatModes float_modes;
    Counts counts;
    for (const FormatPair& pair : pairs) {
        const std::vector<double> inputs = inputs_of(pair, drawn);
        for (const FormulaCase& formula : formulas) {
            const Expression expression = parse_infix(formula.text);
            for (const double x : inputs) {
                mpfr_context = {.bits = bits};
                const Mp exact = formula.value(Mp(x));
                compare(
                    pair, expression, {x}, exact, [&] { return formula.value(Mp(x)); }, counts);
            }
        }
    }
    return counts;
}

/// Checks that no result and no reference is wrong. Also checks that enclosures can round each value that MPFR can
/// round with the same number of digits. The remaining values cannot be rounded by either. Such a value is too close to
/// a number of the format for the permitted number of digits, or it is exactly such a number and the rounding mode is
/// directed.
void check(const Counts& counts) {
    CAPTURE(counts.compared, counts.unresolved, counts.unknown);
    CHECK(counts.unresolved_alone == 0);
    CHECK(counts.wrong_results == 0);
    CHECK(counts.wrong_references == 0);
}

}  // namespace

TEST_CASE("references are exact values rounded once, even where fp64 or 150 digits are not enough",
          "[analysis][eval]") {
    if (!has_enclosures()) SKIP_TEST("this build has no Arb");
    const DefaultFloatModes float_modes;
    struct Case {
        const char* text;
        Format format;
        Round mode;
        double x, expected;
        const char* why;
    };
    const Format e5m6 = pairs[4].format;
    const Case cases[] = {
        {"sin(x)", fp64, Round::nearest_even, 3.937315897247697e160, 0.9860124904063191,
         "an argument beyond 150 digits"},
        {"cos(x)", fp64, Round::nearest_even, 1e300, -0.5753861119575491, "an argument beyond 150 digits"},
        {"exp(x)", fp64, Round::nearest_even, 2131.5, HUGE_VAL, "a value beyond 2^3073"},
        {"exp(x)", fp64, Round::toward_zero, 2131.5, 0x1.fffffffffffffp1023, "a value beyond 2^3073, rounded inwards"},
        {"x*x*x*x", fp64, Round::nearest_even, 1e300, HUGE_VAL, "a product beyond 2^3073"},
        {"(1+x)-1", fp64, Round::nearest_even, 1e-200, 1e-200, "cancels 200 decimal digits"},
        {"(1-cos(x))/(x*x)", fp64, Round::nearest_even, 1e-100, 0.5, "cancels 200 decimal digits"},
        {"(1-cos(x))/(x*x)", fp64, Round::down, 1e-100, 0x1.fffffffffffffp-2, "a little less than 0.5"},
        {"exp(x)-1", fp64, Round::nearest_even, 0x1p-1000, 0x1p-1000, "cancels 301 decimal digits"},
        {"exp(x)-1", fp64, Round::up, 0x1p-1000, 0x1.0000000000001p-1000, "a little more than x"},
        {"1+0.00390625+exp(x)", bf16, Round::nearest_even, -400, 1.0078125, "a tie except for 2^-577"},
        {"1+0.00390625", bf16, Round::nearest_even, 0, 1, "a tie"},
        {"expm1(x)", bf16, Round::up, -328, -0.99609375, "more than -1"},
        {"expm1(x)", fp64, Round::up, -1e300, -0x1.fffffffffffffp-1, "more than -1"},
        {"tanh(x)", e5m6, Round::toward_zero, 164, 0.9921875, "less than 1"},
        {"1+exp(x)", fp64, Round::up, -1e30, 0x1.0000000000001p0, "more than 1"},
        {"exp(x)", fp32, Round::up, -1.1e12, 0x1p-149, "more than 0"},
        {"erfc(x)", fp32, Round::toward_zero, -200, 0x1.fffffep0, "less than 2"},
        {"exp(x)", fp16, Round::up, 1, 2.71875, "the requested mode"},
    };
    for (const Case& each : cases) {
        CAPTURE(each.text, each.why, each.x);
        const Expression expression = parse_infix(each.text);
        const auto got =
            reference_value(expression, each.format, each.mode, std::vector<double>(expression.inputs.size(), each.x));
        REQUIRE(got);
        CHECK(got->rounded == each.expected);
    }
}

TEST_CASE("functions of one and two arguments agree with MPFR in every format and mode", "[analysis][eval]") {
    if (!has_enclosures()) SKIP_TEST("this build has no Arb");
    mpfr_set_emax(mpfr_get_emax_max());
    mpfr_set_emin(mpfr_get_emin_min());
    check(compare_functions(4));
}

TEST_CASE("results and references of formulas agree with MPFR in every format and mode", "[analysis][eval]") {
    if (!has_enclosures()) SKIP_TEST("this build has no Arb");
    mpfr_set_emax(mpfr_get_emax_max());
    mpfr_set_emin(mpfr_get_emin_min());
    check(compare_formulas(0, 8192));
}

TEST_CASE("formulas and functions at many inputs agree with MPFR, with up to 10,000 decimal digits",
          "[analysis][eval][slow]") {
    if (!has_enclosures()) SKIP_TEST("this build has no Arb");
    mpfr_set_emax(mpfr_get_emax_max());
    mpfr_set_emin(mpfr_get_emin_min());
    check(compare_functions(200));
    check(compare_formulas(20, 33220));
}

}  // namespace enclosures_test
