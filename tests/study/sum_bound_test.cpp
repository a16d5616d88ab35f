// SPDX-License-Identifier: Apache-2.0
// Tests the certain error bound of `macheps sum` in every format, and its random data.
#include "core/format_table.hpp"
#include "experiments/study/sum/sum.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace sum_bound_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::reports;

namespace {

SumGrid campaign(bool is_dot, std::vector<std::int64_t> seeds, std::vector<std::int64_t> sizes) {
    SumGrid grid{.formats = {fp32, fp16, bf16, e5m2, e4m3fn, e2m1fn, e2m3fn, e3m2fn},
                 .rounds = {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up, Round::stochastic},
                 .data = {},
                 .sizes = std::move(sizes),
                 .seeds = std::move(seeds),
                 .is_dot = is_dot};
    for (const char* data : {"normal", "uniform", "positive", "lognormal", "outliers"})
        grid.data.push_back(parse_sum_data(data));
    for (const char* method : {"recursive", "ascending", "descending", "pairwise", "blocked:8", "lanes32", "splitk:3",
                               "kahan", "neumaier", "sum2", "sumK:3", "exact"}) {
        grid.methods.push_back(parse_sum_method(method, is_dot));
    }
    for (const char* method : {"chain", "muladd", "dot2"}) {
        if (is_dot) grid.methods.push_back(parse_sum_method(method, is_dot));
    }
    return grid;
}

struct Counts {
    std::size_t rows = 0, bounded = 0, beyond = 0, saturated = 0;
};

void judge(const SumGrid& grid, Counts& counts) {
    ThreadPool pool(2);
    run_sums(
        pool, chosen_simd(), grid,
        [&](const SumRow& row) {
            ++counts.rows;
            REQUIRE(row.saturated.has_value());
            counts.saturated += *row.saturated > 0;
            if (*row.saturated > 0) {
                const bool is_given = row.bound_unit.has_value() || row.probable_unit.has_value();
                if (is_given)
                    FAIL_CHECK("a saturated sum has a bound: " << row.method << ' ' << row.format << ' ' << row.round);
            }
            if (!row.error_unit || !row.bound_unit) return;
            ++counts.bounded;
            if (*row.error_unit <= *row.bound_unit * (1 + 1e-12)) return;
            ++counts.beyond;
            if (counts.beyond < 10) {
                UNSCOPED_INFO(row.method << ' ' << row.format << ' ' << row.round << ' ' << row.data << " seed "
                                         << row.seed << " n " << row.n << " dot " << *row.dot << ": " << *row.error_unit
                                         << " > " << *row.bound_unit);
            }
        },
        [](const std::string&) {});
}

/// Returns the numbers of a format in ascending order. leaves_range() searches in this table, so it does not need the
/// rounding of the library's kernels.
std::vector<double> numbers_of(const Format& f) {
    std::set<double> all;
    for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits; ++code) all.insert(decode64(f, code));
    return {all.begin(), all.end()};
}

/// Computes a recursive sum. Rounds each sum to one of `numbers`, either to nearest (ties to the even index) or toward
/// zero. Returns whether a sum exceeded the range. fp64 is exact for the sums of these narrow numbers.
bool leaves_range(const std::vector<double>& numbers, const std::vector<double>& terms, Round mode) {
    const double largest = numbers.back(), step = largest - numbers[numbers.size() - 2];
    double s = 0;
    bool has_left = false;
    for (const double x : terms) {
        const double exact = s + x, size = std::fabs(exact);
        has_left = has_left || size >= largest + (mode == Round::toward_zero ? step : step / 2);
        const auto above = std::lower_bound(numbers.begin(), numbers.end(), exact);
        if (above == numbers.end()) {
            s = largest;
        } else if (*above == exact || above == numbers.begin()) {
            s = *above;
        } else {
            const double high = *above, low = *(above - 1);
            const auto place = above - numbers.begin();
            const bool is_high_even =
                (place - (std::lower_bound(numbers.begin(), numbers.end(), 0.0) - numbers.begin())) % 2 == 0;
            const bool takes_high = mode == Round::toward_zero    ? exact < 0
                                    : high - exact == exact - low ? is_high_even
                                                                  : high - exact < exact - low;
            s = takes_high ? high : low;
        }
    }
    return has_left;
}

}  // namespace

TEST_CASE("no row of sum exceeds its certain bound, even in formats that saturate", "[analysis][sum]") {
    Counts counts;
    for (const bool is_dot : {false, true}) judge(campaign(is_dot, {0, 1}, {3, 17, 64}), counts);
    CHECK(counts.rows == 5 * 8 * (12 + 15) * 5 * 2 * 3);
    CHECK(counts.bounded > counts.rows / 3);
    CHECK(counts.saturated > 1000);
    CHECK(counts.beyond == 0);
}

TEST_CASE("none of 259,200 rows of sum exceeds its certain bound", "[analysis][sum][slow]") {
    Counts counts;
    for (const bool is_dot : {false, true})
        judge(campaign(is_dot, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 17, 64, 300}), counts);
    CHECK(counts.rows == 259200);
    WARN(counts.bounded << " rows with a bound, " << counts.saturated << " saturated, " << counts.beyond
                        << " beyond their bound");
    CHECK(counts.beyond == 0);
}

TEST_CASE("saturated sums are counted correctly: a search through all numbers of the format gives the same count",
          "[analysis][sum]") {
    std::size_t saturated = 0, rows = 0;
    for (const Format& format : {e2m1fn, e2m3fn, e3m2fn}) {
        const std::vector<double> numbers = numbers_of(format);
        const std::string chain = "machine:chain:" + std::string(format_name(format));
        SumGrid grid{.methods = {parse_sum_method("recursive", false), parse_sum_method(chain, false)},
                     .formats = {format},
                     .rounds = {Round::nearest_even, Round::toward_zero},
                     .sizes = {5, 30}};
        for (const char* data : {"normal", "positive", "outliers"}) grid.data.push_back(parse_sum_data(data));
        for (std::int64_t seed = 1; seed < 20; ++seed) grid.seeds.push_back(seed);
        ThreadPool pool(1);
        run_sums(
            pool, chosen_simd(), grid,
            [&](const SumRow& row) {
                CAPTURE(row.method, row.format, row.round, row.data, row.n, row.seed, row.result);
                const SumVectors terms =
                    sum_vectors(parse_sum_data(row.data), format, static_cast<std::uint64_t>(row.seed), row.n, false);
                const Round mode = row.round == "toward_zero" ? Round::toward_zero : Round::nearest_even;
                CHECK(*row.saturated == (leaves_range(numbers, terms.x, mode) ? 1u : 0u));
                saturated += *row.saturated;
                ++rows;
            },
            [](const std::string&) {});
    }
    CHECK(rows == 3 * 3 * 2 * 20 * 3);
    CHECK(saturated > 100);
}

TEST_CASE("random data uses all digits of every format, so that even fp64 sums have errors", "[analysis][sum]") {
    for (const NamedFormat& row : all_formats) {
        if (row.format.encoding != Encoding::binary) continue;
        for (const NamedDistribution& distribution : all_distributions) {
            if (distribution.distribution == Distribution::equal) continue;
            const SumVectors drawn = sum_vectors(parse_sum_data(distribution.name), row.format, 3, 400, true);
            for (const std::vector<double>& terms : {drawn.x, drawn.y}) {
                int digits = 0;
                double largest = 0;
                for (const double x : terms) {
                    if (!std::isfinite(x)) continue;
                    int exponent = 0, own = 0;
                    for (double rest = std::frexp(x, &exponent); rest != 0; ++own)
                        rest = rest * 2 - std::trunc(rest * 2);
                    digits = std::max(digits, own);
                    largest = std::max(largest, std::fabs(x));
                }
                // A random draw has 53 bits, one of which is the sign, so at most 52 digits are expected. Subnormal
                // terms lack digits of the format. `lost` counts these digits and one more, because the largest term
                // may have been rounded up to a power of two.
                const int lost = std::max(0, row.format.emin() + 1 - std::ilogb(largest));
                CAPTURE(row.name, distribution.name, digits, lost);
                CHECK(digits >= std::min(row.format.precision - lost, 52));
            }
        }
    }
    SumGrid grid{.formats = {fp64}, .sizes = {1000}};
    for (const char* method : {"recursive", "pairwise", "blocked:128", "lanes32"})
        grid.methods.push_back(parse_sum_method(method, false));
    for (const char* data : {"positive", "normal", "uniform", "lognormal", "outliers"})
        grid.data.push_back(parse_sum_data(data));
    ThreadPool pool(1);
    run_sums(
        pool, chosen_simd(), grid,
        [](const SumRow& row) {
            CAPTURE(row.method, row.data);
            CHECK(*row.error_unit > 0);
            CHECK(*row.error_unit <= *row.bound_unit);
        },
        [](const std::string&) {});
}

}  // namespace sum_bound_test
