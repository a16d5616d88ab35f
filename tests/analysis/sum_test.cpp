// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/sum.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/stochastic_float.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

using namespace macheps;
using namespace macheps::analysis;

namespace {

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

SumGrid grid_of(const std::string& data, std::int64_t n, const std::string& formats, const std::string& methods) {
    SumGrid grid;
    grid.data = {parse_sum_data(data)};
    grid.sizes = {n};
    for (const std::string& name : words_of(formats)) grid.formats.push_back(format_named(name));
    for (const std::string& name : words_of(methods)) grid.methods.push_back(parse_sum_method(name));
    return grid;
}

std::vector<SumRow> rows_of(const SumGrid& grid, int threads = 2) {
    ThreadPool pool(threads);
    std::vector<SumRow> rows;
    require_possible(grid);
    run_sum(pool, grid, [&](const SumRow& row) { rows.push_back(row); });
    return rows;
}

std::string results_of(const SumGrid& grid) {
    std::string text;
    for (const SumRow& row : rows_of(grid)) text += (text.empty() ? "" : " ") + row.result;
    return text;
}

constexpr const char *first_formats = "fp32 fp16 bf16 e5m2", *second_formats = "fp32 fp16 bf16 e4m3fn";

}  // namespace

TEST_CASE("sums have the published codes", "[analysis][sum]") {
    struct Case {
        const char *method, *positive, *uniform;
    };
    const Case c = GENERATE(Case{"recursive", "47005767 6800 4380 48", "418b9d23 4c5f 4186 4d"},
                            Case{"ascending", "47005795 6800 4380 48", "418b9d21 4c61 418b 4a"},
                            Case{"descending", "47005740 6800 4380 48", "418b9d24 4c5e 418d 52"},
                            Case{"pairwise", "47005765 7803 4700 78", "418b9d24 4c5d 418a 58"},
                            Case{"blocked:128", "47005766 7803 46fa 54", "418b9d24 4c5b 418b 58"},
                            Case{"lanes32", "47005766 7803 4700 74", "418b9d24 4c5d 418b 5a"},
                            Case{"splitk:8", "47005768 7400 4500 54", "418b9d22 4c5a 418c 55"},
                            Case{"kahan", "47005766 7803 4700 54", "418b9d24 4c5d 418c 59"},
                            Case{"neumaier", "47005766 6c00 4400 4c", "418b9d24 4c5c 418c 54"},
                            Case{"sum2", "47005766 6c00 4400 4c", "418b9d24 4c5c 418c 54"},
                            Case{"sumK:3", "47005766 6e00 4440 4e", "418b9d24 4c5c 418c 57"},
                            Case{"exact", "47005766 7803 4700 78", "418b9d24 4c5c 418c 59"});
    CAPTURE(c.method);
    CHECK(results_of(grid_of("positive", 65536, first_formats, c.method)) == c.positive);
    CHECK(results_of(grid_of("uniform", 1000, second_formats, c.method)) == c.uniform);
}

TEST_CASE("errors of sums are those published, in units of u S", "[analysis][sum]") {
    const std::vector<SumRow> rows = rows_of(grid_of("positive", 65536, first_formats, "recursive pairwise"));
    const double expected[] = {2.5, 1.5, 1920, 0.54, 254, 0.68, 8.0, 0.02};
    for (int i = 0; i < 8; ++i) {
        CAPTURE(i);
        CHECK(*rows[static_cast<std::size_t>(i)].error_unit == Approx(expected[i]).epsilon(0.05).margin(0.004));
        CHECK(*rows[static_cast<std::size_t>(i)].error_unit <= *rows[static_cast<std::size_t>(i)].bound_unit);
    }
    // Stagnation hides an overflow: the exact sum is beyond e4m3fn, the recursive one stays at 16.
    const std::vector<SumRow> hidden = rows_of(grid_of("positive", 1000, "e4m3fn", "exact recursive"));
    CHECK(hidden[0].nonfinite == 1);
    CHECK_FALSE(hidden[0].abs_error);
    CHECK(hidden[0].exact == Approx(508.55).epsilon(1e-4));
    CHECK(hidden[1].result == "58");
}

TEST_CASE("directed and stochastic sums have the published codes", "[analysis][sum]") {
    const auto rounded = [](const char* data, std::int64_t n, const char* formats, Round round, std::int64_t trials) {
        SumGrid grid = grid_of(data, n, formats, "recursive");
        grid.rounds = {round};
        grid.trials = trials;
        return grid;
    };
    CHECK(results_of(rounded("positive", 65536, first_formats, Round::toward_zero, 1)) == "47002c85 640c 437a 48");
    CHECK(results_of(rounded("uniform", 1000, second_formats, Round::toward_zero, 1)) == "418b9c6c 4b6d 40c3 41");
    const std::vector<SumRow> positive = rows_of(rounded("positive", 65536, first_formats, Round::stochastic, 20));
    const std::vector<SumRow> uniform = rows_of(rounded("uniform", 1000, second_formats, Round::stochastic, 20));
    const char *codes[] = {"4700576f", "77da", "46f1", "76"}, *uniform_codes[] = {"418b9d24", "4c5e", "4187", "60"};
    const double rms[] = {81.2, 42.2, 13.1, 1.93}, uniform_rms[] = {0.410, 0.354, 0.447, 0.428};
    for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(positive[i].result == codes[i]);
        CHECK(uniform[i].result == uniform_codes[i]);
        CHECK(*positive[i].rms_unit == Approx(rms[i]).epsilon(5e-3));
        CHECK(*uniform[i].rms_unit == Approx(uniform_rms[i]).epsilon(5e-3));
        CHECK(*positive[i].rms_unit < 256);
    }
}

TEST_CASE("the harmonic series stops where it is published to", "[analysis][sum]") {
    struct Case {
        const char* format;
        std::int64_t term;
        double sum;
        const char* code;
    };
    const Case c = GENERATE(Case{"e5m2", 5, 2, "40"}, Case{"e4m3fn", 9, 3, "44"}, Case{"tf32", 513, 7.0859375, ""},
                            Case{"bf16", 65, 5.0625, "40a2"}, Case{"fp16", 513, 7.0859375, "4716"});
    CAPTURE(c.format);
    const SumRow row = rows_of(grid_of("harmonic", 2000, c.format, "recursive")).front();
    CHECK(row.stagnated_at == c.term - 1);
    CHECK(row.value == c.sum);
    if (*c.code != 0) CHECK(row.result == c.code);
}

TEST_CASE("the harmonic series stops in fp32 too, after two million terms", "[analysis][sum][slow]") {
    const SumRow row = rows_of(grid_of("harmonic", 1 << 22, "fp32", "recursive")).front();
    CHECK(row.stagnated_at == 2097151);
    CHECK(row.value == Approx(15.4036827).epsilon(1e-9));
}

TEST_CASE("compensated dot products have the published codes and errors", "[analysis][sum]") {
    struct Case {
        const char* format;
        int c;
        double cond, chain, dot2;
        const char* code;
    };
    const Case c = GENERATE(Case{"fp32", 16, 8.8e6, 0.0132, 0, "38100000"}, Case{"fp32", 24, 2.3e9, 3.82, 1.1e-6, "340ffff6"},
                            Case{"fp32", 32, 5.8e11, 865, 2.2e-4, "300ff800"}, Case{"fp32", 40, 1.5e14, 2.2e5, 0.056, "2c080000"},
                            Case{"fp16", 4, 2.2e3, 0.0148, 0, "3080"}, Case{"fp16", 8, 3.5e4, 0.21, 8.7e-4, "207f"},
                            Case{"fp16", 12, 5.5e5, 3.3, 0.0104, "1074"}, Case{"fp16", 16, 8.8e6, 60, 0.278, "01a0"},
                            Case{"bf16", 4, 2.2e3, 0.0139, 0.0139, "3e12"}, Case{"bf16", 8, 3.5e4, 0.208, 0.43, "3c4e"},
                            Case{"bf16", 12, 5.5e5, 3.33, 3.8, "3b2e"});
    CAPTURE(c.format, c.c);
    SumGrid grid = grid_of("cancel:" + std::to_string(c.c), 256, c.format, "chain dot2");
    grid.seeds = {1};
    grid.dot = true;
    const std::vector<SumRow> rows = rows_of(grid);
    CHECK(rows[0].exact == std::ldexp(2.25, -c.c));
    CHECK(rows[0].cond == Approx(c.cond).epsilon(0.05));
    CHECK(*rows[0].abs_error / rows[0].exact == Approx(c.chain).epsilon(0.03));
    CHECK(*rows[1].abs_error / rows[1].exact == Approx(c.dot2).epsilon(0.05));
    CHECK(rows[1].result == c.code);
}

TEST_CASE("sums are those of loops over Float, in order of their random words", "[analysis][sum]") {
    const SumOperands data = sum_operands(parse_sum_data("normal"), fp16, 3, 300, true);
    RandomStream stream{.key = {.seed = 3, .step = 2, .site = site_id("sum.round")}};
    Float<fp16> s, c;
    for (const double x : data.x) {  // Kahan's sum, every rounding stochastic
        const auto y = sub(Float<fp16>(x), c, stream), t = add(s, y, stream);
        c = sub(sub(t, s, stream), y, stream);
        s = t;
    }
    SumNumbers in(fp16, Round::stochastic, {.seed = 3, .step = 2, .site = site_id("sum.round")});
    CHECK(sum_by(parse_sum_method("kahan"), in, data.x, {}) == double(s));
    Float<bf16> chain;
    const SumOperands brain = sum_operands(parse_sum_data("lognormal"), bf16, 3, 300, true);
    for (std::size_t i = 0; i < 300; ++i) chain = fma(Float<bf16>(brain.x[i]), Float<bf16>(brain.y[i]), chain);
    SumNumbers nearest(bf16, Round::nearest_even, {});
    CHECK(sum_by(parse_sum_method("chain"), nearest, brain.x, brain.y) == double(chain));
}

TEST_CASE("the exact sum does not depend on the order, nor rows on threads", "[analysis][sum]") {
    SumOperands data = sum_operands(parse_sum_data("lognormal"), fp32, 5, 999, false);
    SumNumbers in(fp32, Round::nearest_even, {});
    const double sum = sum_by(parse_sum_method("exact"), in, data.x, {});
    std::reverse(data.x.begin(), data.x.end());
    CHECK(sum_by(parse_sum_method("exact"), in, data.x, {}) == sum);
    SumGrid grid = grid_of("normal", 77, "fp32 e4m3fn", "recursive dot2 sumK exact");
    grid.dot = true;
    grid.rounds = {Round::nearest_even, Round::stochastic, Round::up};
    grid.trials = 3;
    CHECK(rows_of(grid, 1) == rows_of(grid, 3));
}

TEST_CASE("no certain bound is exceeded, and the probable one seldom", "[analysis][sum]") {
    SumGrid grid = grid_of("normal", 500, "fp32 fp16 bf16", "recursive pairwise blocked lanes32 splitk exact sum2 neumaier");
    for (const char* more : {"positive", "lognormal", "outliers", "uniform"}) grid.data.push_back(parse_sum_data(more));
    grid.rounds = {Round::nearest_even, Round::toward_zero, Round::up, Round::stochastic};
    grid.seeds = {0, 1};
    int beyond = 0, rows = 0;
    for (const SumRow& row : rows_of(grid)) {
        CAPTURE(row.method, row.format, row.round, row.data);
        if (row.bound_unit && row.error_unit) CHECK(*row.error_unit <= *row.bound_unit);
        if (row.probable_unit && row.error_unit) ++rows, beyond += *row.error_unit > *row.probable_unit;
    }
    CHECK(rows > 300);
    CHECK(beyond == 0);
}

TEST_CASE("sums that mean nothing are refused", "[analysis][sum]") {
    CHECK_THROWS_AS(parse_sum_method("kahn"), Error);
    CHECK_THROWS_AS(parse_sum_method("kahan:3"), Error);
    CHECK_THROWS_AS(parse_sum_method("blocked:0"), Error);
    CHECK_THROWS_AS(parse_sum_data("cancel:x"), Error);
    CHECK_THROWS_AS(parse_sum_data("gaussian"), Error);
    CHECK_THROWS_AS(require_possible(grid_of("cancel:4", 8, "fp16", "recursive")), Error);
    CHECK_THROWS_AS(require_possible(grid_of("normal", 8, "fp16", "dot2")), Error);
    CHECK_THROWS_AS(require_possible(grid_of("normal", 8, "fp64", "recursive")), Error);
    CHECK_THROWS_AS(require_possible(grid_of("normal", 8, "e8m0fnu", "recursive")), Error);
}
