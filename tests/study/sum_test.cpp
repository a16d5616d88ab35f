// SPDX-License-Identifier: Apache-2.0
// Compares `macheps sum` with the definitions of its methods in plain loops, and with expected results.
#include "experiments/study/sum/sum.hpp"
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/rounding_names.hpp"
#include "experiments/study/sum/round.hpp"
#include "tests/study/sum_definitions.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

namespace sum_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::test;
using namespace macheps::reports;

namespace {

/// Returns numbers of the format. Most of them have moderate size; some are zeros or arbitrary codes. NaN, infinities
/// and large numbers occur only if `wild`.
std::vector<double> numbers(const Format& f, std::size_t n, std::uint64_t seed, bool wild) {
    std::mt19937_64 random(seed);
    std::vector<double> out;
    for (std::size_t i = 0; i < n; ++i) {
        double x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), -62);
        if (random() % 8 == 0) x = decode64(f, (random() & (f.sign_bit() | f.magnitude_mask())) << f.padding);
        if (random() % 16 == 0) x = random() % 2 == 0 ? 0.0 : -0.0;
        if (!wild && !(std::fabs(x) < 1e3)) x = 0.75;
        out.push_back(decode64(f, encode64(f, x, Round::nearest_even, Overflow::nonsaturate)));
    }
    return out;
}

struct Choice {
    SumMethod method;
    std::int64_t parameter;
    bool dots;
};
constexpr Choice choices[] = {
    {SumMethod::recursive, 0, false}, {SumMethod::pairwise, 0, false}, {SumMethod::blocked, 7, false},
    {SumMethod::splitk, 5, false},    {SumMethod::lanes, 0, false},    {SumMethod::torch, 0, false},
    {SumMethod::kahan, 0, false},     {SumMethod::neumaier, 0, false}, {SumMethod::sum2, 0, false},
    {SumMethod::sum_k, 3, false},     {SumMethod::chain, 0, true},     {SumMethod::dot2, 0, true}};

/// Returns whether two results are the same number. All NaNs are the same, and the two zeros differ.
bool is_same(double a, double b) {
    if (a != a || b != b) return a != a && b != b;
    return bit_cast<std::uint64_t>(a) == bit_cast<std::uint64_t>(b);
}

/// Compares sixteen sums that are computed at once with the definition, which computes one sum at a time. Returns the
/// number of finite sums.
template <class MakeSteps>
std::size_t compare_with_definition(const Format& f, Round mode, std::size_t n, bool wild, MakeSteps make) {
    std::size_t finite = 0;
    for (const Choice& choice : choices) {
        for (const bool has_products : {false, true}) {
            if (choice.dots && !has_products) continue;
            std::vector<std::vector<double>> x, y;
            LaneKeys keys{};
            std::vector<double> all_x(n * sum_lanes), all_y(n * sum_lanes);
            for (std::size_t l = 0; l < sum_lanes; ++l) {
                x.push_back(numbers(f, n, 100 * l + n, wild));
                y.push_back(has_products ? numbers(f, n, 100 * l + n + 50, wild) : std::vector<double>{});
                keys[l] = {.seed = l + (std::uint64_t{7} << 40), .step = static_cast<std::uint32_t>(3 * l), .site = 9};
                for (std::size_t i = 0; i < n; ++i) {
                    all_x[i * sum_lanes + l] = x[l][i];
                    if (has_products) all_y[i * sum_lanes + l] = y[l][i];
                }
            }
            for (const Simd simd : available_simd()) {
                LaneArithmetic arithmetic(simd, f, mode, keys);
                const LaneSums sums = sum_in_lanes(
                    arithmetic, choice.method, choice.parameter,
                    {.x = all_x.data(), .y = has_products ? all_y.data() : nullptr, .n = static_cast<std::int64_t>(n)});
                for (std::size_t l = 0; l < sum_lanes; ++l) {
                    auto steps = make(keys[l]);
                    PlainSum<decltype(steps)> plain(steps, x[l], y[l]);
                    const double expected = plain.run(choice.method, static_cast<std::size_t>(choice.parameter));
                    finite += std::isfinite(expected);
                    if (is_same(sums.value.lane[l], expected)) continue;
                    CAPTURE(format_name(f), name_of(mode), static_cast<int>(choice.method), has_products, l, n);
                    CAPTURE(simd_name(simd), sums.value.lane[l], expected);
                    REQUIRE(is_same(sums.value.lane[l], expected));
                }
            }
        }
    }
    return finite;
}

template <Format F>
void compare_with_floats(std::size_t n, bool wild) {
    const std::size_t finite =
        compare_with_definition(F, Round::nearest_even, n, wild, [](RngKey) { return FloatSteps<F>{}; });
    CAPTURE(F.bits, F.precision, n, wild);
    CHECK(finite >= (wild ? 0u : sum_lanes * std::size(choices)));
}

std::vector<SumRow> rows_of(const SumGrid& grid, int threads = 2, Simd simd = chosen_simd()) {
    ThreadPool pool(threads);
    require_possible(grid);
    std::vector<SumRow> rows;
    run_sums(
        pool, simd, grid, [&](const SumRow& row) { rows.push_back(row); }, [](const std::string&) {});
    return rows;
}

SumGrid grid_of(const std::string& data, std::int64_t n, const std::vector<std::string>& methods,
                const std::vector<Format>& formats, bool is_dot = false) {
    SumGrid grid{.formats = formats, .data = {parse_sum_data(data)}, .sizes = {n}, .is_dot = is_dot};
    for (const std::string& name : methods) grid.methods.push_back(parse_sum_method(name, is_dot));
    return grid;
}

const std::vector<std::string> table_methods{"recursive",   "ascending", "descending", "pairwise",
                                             "blocked:128", "lanes32",   "splitk:8",   "kahan",
                                             "neumaier",    "sum2",      "sumK:3",     "exact"};

}  // namespace

TEST_CASE("every sum equals its definition in Float<F> loops, on every instruction set", "[analysis][sum]") {
    const DefaultFloatModes modes;
    for (const bool wild : {false, true}) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{33}, std::size_t{150}}) {
            compare_with_floats<fp16>(n, wild);
            compare_with_floats<bf16>(n, wild);
            compare_with_floats<fp32>(n, wild);
            compare_with_floats<tf32>(n, wild);
            compare_with_floats<e4m3fn>(n, wild);
            compare_with_floats<e5m2>(n, wild);
            compare_with_floats<e4m3fnuz>(n, wild);
            compare_with_floats<e2m3fn>(n, wild);
            compare_with_floats<fp64>(n, wild);
        }
    }
    compare_with_floats<fp16>(2100, false);  // more than the 1024 terms that the method `lanes` adds in one chunk
}

TEST_CASE("every sum equals loops over op() in every rounding mode, on every instruction set", "[analysis][sum]") {
    const DefaultFloatModes modes;
    std::size_t finite = 0;
    for (const RoundName& row : round_names) {
        for (const Format& f : {fp16, bf16, fp32, e4m3fn, e5m2, e5m2fnuz, e2m3fn, e2m1fn}) {
            for (const bool wild : {false, true}) {
                finite += compare_with_definition(f, row.value, 65, wild, [&](RngKey key) {
                    return CodeSteps{.format = f, .mode = row.value, .key = key};
                });
            }
        }
    }
    for (const Round mode : {Round::stochastic, Round::down}) {
        finite += compare_with_definition(
            fp64, mode, 40, true, [&](RngKey key) { return CodeSteps{.format = fp64, .mode = mode, .key = key}; });
    }
    CHECK(finite > 10000);
}

TEST_CASE("rounded sums of two numbers equal op(), including cancellation and the ends of the range",
          "[analysis][sum]") {
    std::mt19937_64 random(5);
    int compared = 0;
    for (const RoundName& row : round_names) {
        for (const Format& f : {fp32, bf16, tf32, fp16, e5m2, e3m2fn}) {
            const ModeRounder round(f, row.value);
            for (int i = 0; i < 40000; ++i) {
                const std::uint64_t mask = f.sign_bit() | f.magnitude_mask();
                std::uint64_t a = random() & mask, b = random() & mask;
                if (i % 4 == 0) b = (a ^ (random() & 3)) & mask;                   // neighbours, cancellation
                if (i % 4 == 1) b = ((a & ~f.magnitude_mask()) | (random() & 7));  // the smallest numbers
                const auto word = static_cast<std::uint32_t>(i % 8 == 0 ? 0 : i % 8 == 1 ? 0xffffffffu : random());
                a <<= f.padding, b <<= f.padding;
                const std::uint64_t expected =
                    op(Operation::add, f, a, b, 0, row.value, Overflow::nonsaturate, {word, 32}).bits;
                ExactPair x = two_sum(decode64(f, a), decode64(f, b));
                if (x.sum == 0) continue;  // the adder decides the sign of zero
                ++compared;
                const double got = round(x, word);
                if (is_same(got, decode64(f, expected))) continue;
                CAPTURE(format_name(f), row.name, a, b, word, got, expected);
                REQUIRE(is_same(got, decode64(f, expected)));
            }
        }
    }
    CHECK(compared > 1000000);
}

TEST_CASE("sums of 65536 positive terms, and of 1000 terms with both signs, have the expected codes",
          "[analysis][sum]") {
    struct Line {
        const char* method;
        std::vector<std::string> positive, uniform;  // codes in fp32, fp16, bf16 and e5m2 (`uniform`: e4m3fn)
    };
    const std::vector<Line> lines{
        {"recursive", {"47005767", "6800", "4380", "48"}, {"418b9d23", "4c5f", "4186", "4d"}},
        {"ascending", {"47005795", "6800", "4380", "48"}, {"418b9d21", "4c61", "418b", "4a"}},
        {"descending", {"47005740", "6800", "4380", "48"}, {"418b9d24", "4c5e", "418d", "52"}},
        {"pairwise", {"47005765", "7803", "4700", "78"}, {"418b9d24", "4c5d", "418a", "58"}},
        {"blocked:128", {"47005766", "7803", "46fa", "54"}, {"418b9d24", "4c5b", "418b", "58"}},
        {"lanes32", {"47005766", "7803", "4700", "74"}, {"418b9d24", "4c5d", "418b", "5a"}},
        {"splitk:8", {"47005768", "7400", "4500", "54"}, {"418b9d22", "4c5a", "418c", "55"}},
        {"kahan", {"47005766", "7803", "4700", "54"}, {"418b9d24", "4c5d", "418c", "59"}},
        {"neumaier", {"47005766", "6c00", "4400", "4c"}, {"418b9d24", "4c5c", "418c", "54"}},
        {"sum2", {"47005766", "6c00", "4400", "4c"}, {"418b9d24", "4c5c", "418c", "54"}},
        {"sumK:3", {"47005766", "6e00", "4440", "4e"}, {"418b9d24", "4c5c", "418c", "57"}},
        {"exact", {"47005766", "7803", "4700", "78"}, {"418b9d24", "4c5c", "418c", "59"}},
    };
    const std::vector<Format> wide{fp32, fp16, bf16, e5m2}, narrow{fp32, fp16, bf16, e4m3fn};
    const std::vector<SumRow> positive = rows_of(grid_of("positive", 65536, table_methods, wide)),
                              uniform = rows_of(grid_of("uniform", 1000, table_methods, narrow));
    REQUIRE(positive.size() == 48);
    for (std::size_t format = 0; format < 4; ++format) {
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const SumRow &a = positive[format * lines.size() + i], &b = uniform[format * lines.size() + i];
            CAPTURE(lines[i].method, a.format, b.format);
            CHECK(a.method == lines[i].method);
            CHECK(a.result == lines[i].positive[format]);
            CHECK(b.result == lines[i].uniform[format]);
        }
    }
    const auto unit = [&](const char* method, const char* format) {
        for (const SumRow& row : positive) {
            if (row.method == method && row.format == format) return row.error_unit.value_or(-1);
        }
        return -1.0;
    };
    CHECK(unit("recursive", "fp32") == Approx(2.5).margin(0.05));
    CHECK(unit("recursive", "fp16") == Approx(1920).margin(0.5));
    CHECK(unit("neumaier", "fp16") == Approx(1793).margin(0.5));
    CHECK(unit("splitk:8", "bf16") == Approx(240).margin(0.5));
    CHECK(unit("pairwise", "e5m2") == Approx(0.02).margin(0.005));
}

TEST_CASE("truncated and stochastic sums have the expected codes and deviations", "[analysis][sum]") {
    SumGrid grid = grid_of("positive", 65536, {"recursive"}, {fp32, fp16, bf16, e5m2});
    grid.rounds = {Round::toward_zero, Round::stochastic};
    grid.trials = 20;
    const std::vector<SumRow> positive = rows_of(grid);
    grid.data = {parse_sum_data("uniform")};
    grid.sizes = {1000};
    grid.formats = {fp32, fp16, bf16, e4m3fn};
    const std::vector<SumRow> uniform = rows_of(grid);
    const char* cut[] = {"47002c85", "640c", "437a", "48", "418b9c6c", "4b6d", "40c3", "41"};
    const char* drawn[] = {"4700576f", "77da", "46f1", "76", "418b9d24", "4c5e", "4187", "60"};
    const double deviation[] = {81.2, 42.2, 13.1, 1.93, 0.410, 0.354, 0.447, 0.428};
    for (std::size_t i = 0; i < 8; ++i) {
        const std::vector<SumRow>& rows = i < 4 ? positive : uniform;
        CAPTURE(i);
        CHECK(rows[2 * (i % 4)].result == cut[i]);
        CHECK(rows[2 * (i % 4) + 1].result == drawn[i]);
        CHECK(*rows[2 * (i % 4) + 1].rms_unit == Approx(deviation[i]).epsilon(0.006));
    }
    CHECK_FALSE(positive[0].probable_unit.has_value());
    CHECK(*positive[3].probable_unit == Approx(2 * 4 * std::sqrt(65535.0)));
    // A recursive sum in a small format can stagnate before it overflows, although the exact sum overflows.
    const std::vector<SumRow> hidden = rows_of(grid_of("positive", 1000, {"exact", "recursive"}, {e4m3fn}));
    CHECK(hidden[0].nonfinite == 1);
    CHECK_FALSE(hidden[0].error_unit.has_value());
    CHECK(hidden[1].result == "58");
}

TEST_CASE("sums of the harmonic series stagnate at a term of half a unit in the last place", "[analysis][sum]") {
    struct Line {
        Format format;
        std::int64_t n, stagnated_at;
        double value;
    };
    // Term k of the series has index k - 1. All terms after the first term that does not change the sum do not change
    // it either.
    const Line line = GENERATE(Line{e5m2, 64, 4, 2}, Line{e4m3fn, 64, 8, 3}, Line{tf32, 4096, 512, 7.0859375},
                               Line{bf16, 4096, 64, 5.0625}, Line{fp16, 4096, 512, 7.0859375});
    const std::vector<SumRow> rows = rows_of(grid_of("harmonic", line.n, {"recursive"}, {line.format}));
    CAPTURE(rows[0].format);
    CHECK(rows[0].value == line.value);
    CHECK(rows[0].stagnated_at == line.stagnated_at);
}

TEST_CASE("dot2 gives the expected codes, and has no advantage over chain in bf16", "[analysis][sum]") {
    struct Line {
        Format format;
        std::int64_t c;
        double cond, chain, dot2;
        const char* code;
    };
    const Line line =
        GENERATE(Line{fp32, 16, 8.8e6, 0.0132, 0, "38100000"}, Line{fp32, 24, 2.3e9, 3.82, 1.1e-6, "340ffff6"},
                 Line{fp32, 32, 5.8e11, 865, 2.2e-4, "300ff800"}, Line{fp32, 40, 1.5e14, 2.2e5, 0.056, "2c080000"},
                 Line{fp16, 4, 2.2e3, 0.0148, 0, "3080"}, Line{fp16, 8, 3.5e4, 0.21, 8.7e-4, "207f"},
                 Line{fp16, 12, 5.5e5, 3.3, 0.0104, "1074"}, Line{fp16, 16, 8.8e6, 60, 0.278, "01a0"},
                 Line{bf16, 4, 2.2e3, 0.0139, 0.0139, "3e12"}, Line{bf16, 8, 3.5e4, 0.208, 0.43, "3c4e"},
                 Line{bf16, 12, 5.5e5, 3.33, 3.8, "3b2e"});
    SumGrid grid = grid_of("cancel", 256, {"chain", "dot2"}, {line.format}, true);
    grid.data = {with_c(grid.data[0], line.c)};
    grid.seeds = {1};
    const std::vector<SumRow> rows = rows_of(grid);
    CAPTURE(rows[0].format, line.c);
    CHECK(rows[1].exact == 2.25 * std::ldexp(1.0, -static_cast<int>(line.c)));
    CHECK(*rows[1].cond == Approx(line.cond).epsilon(0.03));
    CHECK(rows[1].result == line.code);
    CHECK(*rows[0].abs_error / rows[0].exact == Approx(line.chain).epsilon(0.03));
    CHECK(*rows[1].abs_error / rows[1].exact == Approx(line.dot2).epsilon(0.04).margin(1e-12));
}

namespace {

struct TransformCounts {
    std::int64_t pairs = 0, sum_fails = 0, product_pairs = 0, product_fails = 0;
};

/// Counts how often TwoSum and TwoProd are not exact, over all pairs of finite codes whose sum or product does not
/// overflow.
TransformCounts transforms(const Format& f, Round mode) {
    std::vector<double> finite;
    for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits; ++code) {
        const double x = decode64(f, code);
        if (std::isfinite(x)) finite.push_back(x);
    }
    TransformCounts out;
    LaneArithmetic r(chosen_simd(), f, mode, {});
    for (const double a : finite) {
        for (std::size_t j = 0; j < finite.size(); j += sum_lanes) {
            LanePack x, y, minus;
            for (std::size_t l = 0; l < sum_lanes; ++l) {
                x.lane[l] = a;
                y.lane[l] = finite[std::min(j + l, finite.size() - 1)];
            }
            const LanePack s = r.add(x, y), z = r.sub(s, x), left = r.sub(x, r.sub(s, z)), e = r.add(left, r.sub(y, z));
            const LanePack p = r.mul(x, y);
            for (std::size_t l = 0; l < sum_lanes; ++l) minus.lane[l] = -p.lane[l];
            const LanePack d = r.fma(x, y, minus);
            for (std::size_t l = 0; l < sum_lanes && j + l < finite.size(); ++l) {
                const double exact_sum = x.lane[l] + y.lane[l], exact_product = x.lane[l] * y.lane[l];  // exact in fp64
                const double largest = decode64(f, f.max_finite_code());
                if (std::fabs(exact_sum) <= largest) {
                    ++out.pairs;
                    out.sum_fails += !(s.lane[l] + e.lane[l] == exact_sum);
                }
                if (std::fabs(exact_product) <= largest) {
                    ++out.product_pairs;
                    out.product_fails += !(p.lane[l] + d.lane[l] == exact_product);
                }
            }
        }
    }
    return out;
}

}  // namespace

TEST_CASE("over all pairs of fp8 numbers, TwoSum and TwoProd are inexact as often as expected", "[analysis][sum]") {
    const DefaultFloatModes modes;
    const TransformCounts fn = transforms(e4m3fn, Round::nearest_even), e5 = transforms(e5m2, Round::nearest_even);
    CHECK(fn.pairs == 63680);
    CHECK(fn.sum_fails == 0);
    // product_pairs counts pairs whose exact product is at most the largest number. +0 and -0 are two numbers. An
    // independent enumeration gives the same counts.
    CHECK(fn.product_pairs == 54364);
    CHECK(fn.product_fails == 11520);
    CHECK(e5.pairs == 60952);
    CHECK(e5.sum_fails == 2);
    CHECK(e5.product_pairs == 53312);
    CHECK(e5.product_fails == 8704);
}

TEST_CASE("no error of a sum exceeds its certain bound, or its probable bound if rounding is stochastic",
          "[analysis][sum]") {
    std::vector<std::string> methods = table_methods;
    methods.push_back("splitk:3");
    for (const char* data : {"positive", "uniform", "normal", "lognormal", "harmonic", "equal"}) {
        for (const bool is_dot : {false, true}) {
            // In narrow formats, products and their rounding errors can underflow.
            const std::vector<Format> formats =
                is_dot ? std::vector{fp32, bf16, fp16, e4m3fn, e5m2} : std::vector{fp32, bf16, tf32};
            SumGrid grid = grid_of(data, 1, methods, formats, is_dot);
            grid.sizes = {1, 2, 31, 100, 1500};
            grid.rounds = {Round::nearest_even, Round::nearest_away, Round::toward_zero,
                           Round::up,           Round::down,         Round::stochastic};
            grid.seeds = {0, 1, 2};
            std::size_t beyond = 0, drawn = 0;
            for (const SumRow& row : rows_of(grid)) {
                if (row.bound_unit && row.error_unit) {
                    CAPTURE(row.method, row.format, row.round, row.data, row.n, row.seed, is_dot);
                    CHECK(*row.error_unit <= *row.bound_unit * (1 + 1e-12));
                }
                if (row.round == "stochastic" && row.probable_unit && row.error_unit) {
                    ++drawn;
                    beyond += *row.error_unit > *row.probable_unit;
                }
            }
            CHECK(drawn > 100);
            CHECK(beyond == 0);
        }
    }
}

TEST_CASE("certain bounds of dot products hold even if products underflow", "[analysis][sum]") {
    // With seed 1124, the sum of two products has an error of 4.62 u S, where S is the sum of magnitudes. Without
    // underflow, roundings could not explain this error. With the other seeds, dot2 has errors that roundings could not
    // explain without underflow.
    SumGrid grid = grid_of("positive", 2, {"recursive", "chain", "muladd", "dot2"}, {e4m3fn}, true);
    grid.seeds = {516, 1124, 1189, 1691, 1972};
    double most = 0;
    for (const SumRow& row : rows_of(grid)) {
        CAPTURE(row.method, row.seed);
        REQUIRE(row.bound_unit.has_value());
        CHECK(*row.error_unit <= *row.bound_unit);
        most = std::max(most, *row.error_unit);
    }
    CHECK(most > 4.6);
}

TEST_CASE("rows of sums depend neither on threads nor on the instruction set", "[analysis][sum]") {
    SumGrid grid = grid_of("normal", 300, table_methods, {fp16, e4m3fn});
    grid.methods.push_back(parse_sum_method("machine:sm90.wgmma.fp8", false));
    grid.methods.push_back(parse_sum_method("machine:pairwise:bf16", false));
    grid.rounds = {Round::nearest_even, Round::stochastic};
    grid.trials = 37;
    for (std::int64_t seed = 1; seed < 19; ++seed) grid.seeds.push_back(seed);
    const std::vector<SumRow> rows = rows_of(grid, 1, Simd::scalar);
    CHECK(rows.size() == 2 * 19 * (12 * 2 + 1) + 19);
    for (const Simd simd : available_simd()) CHECK(rows_of(grid, 3, simd) == rows);
    // The rows of a seed do not depend on the other seeds.
    grid.seeds = {17};
    for (const SumRow& alone : rows_of(grid)) CHECK(std::find(rows.begin(), rows.end(), alone) != rows.end());
}

TEST_CASE("the machines `chain` and `pairwise` give the sums of `recursive` and `pairwise`, and exact sums are exact",
          "[analysis][sum]") {
    const std::vector<SumRow> rows = rows_of(
        grid_of("normal", 777, {"recursive", "machine:chain:fp16", "pairwise", "machine:pairwise:fp16"}, {fp16}));
    CHECK(rows[0].result == rows[1].result);
    CHECK(rows[2].result == rows[3].result);
    const std::vector<SumRow> forward = rows_of(grid_of("cancel:40", 256, {"exact"}, {fp32}, true));
    CHECK(forward[0].value == 2.25 * std::ldexp(1.0, -40));
}

TEST_CASE("n equal terms are one number, rounded to the format once, and the exact sum is that of the rounded terms",
          "[analysis][sum]") {
    struct Case {
        const char* data;
        Format format;
        double term, sum;
        const char* why;
    };
    // The sums were added by hand: each partial sum is rounded to nearest even.
    const Case c =
        GENERATE(Case{"equal:0.1", fp64, 0.1, 0.1 + 0.1 + 0.1, "0.30000000000000004"},
                 Case{"0.1", fp32, double{0.1f}, double{0.1f + 0.1f + 0.1f}, "the short form"},
                 Case{"equal:0.1", e5m2, 0.09375, 0.25, "0.1875 and 0.28125, which is a tie of 0.25 and 0.3125"},
                 Case{"1/3", e5m2, 0.3125, 1, "0.625 and 0.9375, which is a tie of 0.875 and 1"},
                 Case{"-2", bf16, -2, -6, "exact"},
                 Case{"equal:1.00390625000000000000001", bf16, 0x1.02p+0, 0x1.84p+1,
                      "above a tie that a first rounding to fp64 would give"});
    CAPTURE(c.data, c.why);
    const std::vector<SumRow> rows = rows_of(grid_of(c.data, 3, {"recursive", "exact"}, {c.format}));
    CHECK(sum_vectors(parse_sum_data(c.data), c.format, 0, 3, false).x == std::vector<double>(3, c.term));
    CHECK(sum_vectors(parse_sum_data(c.data), c.format, 0, 3, true).y == std::vector<double>(3, c.term));
    CHECK(rows[0].value == c.sum);
    CHECK(rows[1].exact == Approx(3 * c.term));
    CHECK(rows[0].data == (std::string(c.data).starts_with("equal:") ? c.data : std::string("equal:") + c.data));
}

TEST_CASE("invalid methods, data and formats of a sum are refused", "[analysis][sum]") {
    CHECK_THROWS_WITH(parse_sum_method("pairwize", false), Catch::Contains("did you mean pairwise"));
    CHECK_THROWS_WITH(parse_sum_method("blocked", false), Catch::Contains("the parameter is missing"));
    CHECK_THROWS_WITH(parse_sum_method("blocked:0", false), Catch::Contains("from 1 to"));
    CHECK_THROWS_WITH(parse_sum_method("kahan:2", false), Catch::Contains("has no parameter"));
    CHECK_THROWS_WITH(parse_sum_method("dot2", false), Catch::Contains("adds products"));
    CHECK_THROWS_WITH(parse_sum_data("gaussian"), Catch::Contains("unknown data 'gaussian'"));
    CHECK_THROWS_WITH(parse_sum_data("cancel:-1"), Catch::Contains("from 0 to 200"));
    for (const char* text : {"equal:", "equal:x", "equal:inf", "nan", "0.1.2"})
        CHECK_THROWS_WITH(parse_sum_data(text), Catch::Contains("equal:VALUE with a finite number"));
    CHECK_THROWS_WITH(rows_of(grid_of("70000", 4, {"exact"}, {fp16})),
                      Catch::Contains("70000 is beyond the largest number of fp16"));
    CHECK_THROWS_WITH(rows_of(grid_of("equal:480", 4, {"exact"}, {e4m3fn})),
                      Catch::Contains("largest number of e4m3fn"));
    CHECK_THROWS_WITH(rows_of(grid_of("cancel", 4, {"exact"}, {fp32}, true)),
                      Catch::Contains("cancel needs a value of c"));
    CHECK_THROWS_WITH(rows_of(grid_of("cancel:4", 5, {"exact"}, {fp32}, true)), Catch::Contains("even n"));
    CHECK_THROWS_WITH(rows_of(grid_of("positive", 5, {"exact"}, {e8m0fnu})),
                      Catch::Contains("cannot compute in e8m0fnu"));
    CHECK_THROWS_WITH(rows_of(grid_of("positive", 5, {"machine:sm90.wgmma.fp8"}, {fp16})),
                      Catch::Contains("accepts none of these formats"));
}

TEST_CASE("the height of a summation order is the depth of its tree of additions", "[analysis][sums]") {
    using Depths = std::vector<std::int64_t>;
    const auto chain = [](const Depths& terms) {
        std::int64_t depth = terms.front();
        for (std::size_t i = 1; i < terms.size(); ++i) depth = std::max(depth, terms[i]) + 1;
        return depth;
    };
    const auto blocks = [&](std::int64_t n, std::int64_t size) {
        Depths sums;
        for (std::int64_t first = 0; first < n; first += size)
            sums.push_back(chain(Depths(static_cast<std::size_t>(std::min(size, n - first)), 0)));
        return chain(sums);
    };
    const std::function<std::int64_t(std::int64_t)> halves = [&](std::int64_t n) -> std::int64_t {
        if (n == 1) return 0;
        std::int64_t first = 1;
        while (2 * first < n) first *= 2;
        return std::max(halves(first), halves(n - first)) + 1;
    };
    const auto height = [](std::string_view name, std::int64_t n, std::int64_t parameter) {
        const auto rows = sum_methods();
        const auto row =
            std::find_if(rows.begin(), rows.end(), [&](const SumMethodRow& each) { return each.name == name; });
        return row->height(n, parameter);
    };
    for (std::int64_t n = 1; n <= 300; ++n) {
        CAPTURE(n);
        CHECK(height("recursive", n, 0) == n - 1);
        CHECK(height("pairwise", n, 0) == halves(n));
        for (const std::int64_t size : {1, 2, 3, 7, 64, 400}) {
            CAPTURE(size);
            CHECK(height("blocked", n, size) == blocks(n, size));
            CHECK(height("splitk", n, size) == blocks(n, (n + size - 1) / size));
        }
    }
}

}  // namespace sum_test
