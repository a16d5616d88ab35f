// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/ops/stats.hpp"

#include "core/rng.hpp"
#include "emulation/cpu/ops/casts/fidelity.hpp"
#include "emulation/definitions.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace stats_test {

using namespace macheps;

namespace {

enum class Kind { moderate, any_finite, any_bits };

std::vector<float> numbers(std::int64_t n, Kind kind, std::uint64_t seed) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint32_t r = random_bits({.seed = seed}, i);
        const std::uint32_t field = kind == Kind::moderate ? 120 + (r >> 23 & 15) : (r >> 23 & 255);
        const std::uint32_t finite = kind == Kind::any_finite && field == 255 ? 254 : field;
        x[i] = bit_cast<float>((r & 0x807fffffu) | finite << 23);
        if (r % 97 == 0) x[i] = bit_cast<float>(r & 0x80000000u);
        if (r % 89 == 0 && kind == Kind::any_bits) x[i] = bit_cast<float>((r & 0x80000000u) | 0x7f800000u);
    }
    return x;
}

std::uint64_t bits(double x) { return bit_cast<std::uint64_t>(x); }
std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

std::vector<std::int64_t> lengths() {
    return {0,  1,  2,   7,   8,   9,    15,   16,   17,   31,   32,    33,    63,
            64, 65, 511, 512, 513, 1023, 1024, 1025, 2048, 2049, 65536, 65537, 100003};
}

/// Calls check(simd, pool) for every engine: each instruction set with 1, 2 and 3 threads.
template <class Check>
void for_each_engine(const Check& check) {
    static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
    for (const Simd simd : available_simd()) {
        for (ThreadPool& pool : pools) {
            INFO(simd_name(simd) << ", threads " << pool.threads());
            check(simd, pool);
        }
    }
}

}  // namespace

TEST_CASE("the fidelity figures of a cast have the same bits on every instruction set", "[emulation][stats]") {
    const auto all_bits = [](const FidelityFigures& f) {
        return std::vector<std::uint64_t>{f.subnormal_inexact,  f.overflow_rounded,   f.nonzero,
                                          bits(f.relative_sum), bits(f.relative_max), bits(f.signed_error),
                                          bits(f.abs_x),        bits(f.z_max)};
    };
    std::vector<std::uint64_t> seen(8);
    for (const Kind kind : {Kind::moderate, Kind::any_finite, Kind::any_bits}) {
        for (const std::int64_t n : lengths()) {
            const std::vector<float> x = numbers(n, kind, 1), far = numbers(n, kind, 2);
            for (const bool has_groups : {false, true}) {
                const FidelityCast cast{
                    .min_normal = 0x1p-6, .min_beyond = 464.5, .has_groups = has_groups, .encode_scale = 8};
                // `codes` and `y` are the results of a cast, but some of them are replaced by arbitrary numbers.
                std::vector<float> y(x.size()), codes(x.size());
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const std::uint32_t r = random_bits({.seed = 3}, i);
                    const float code =
                        quantize(e4m3fn, x[i] * cast.encode_scale, Round::nearest_even, Overflow::saturate);
                    codes[i] = r % 11 == 0 ? far[i] : code;
                    y[i] = r % 13 == 0 ? far[i] : codes[i] / cast.encode_scale;
                }
                FidelityFigures expected;
                add_fidelity(Simd::scalar, cast, x.data(), y.data(), codes.data(), n, expected);
                for (const Simd simd : available_simd()) {
                    CAPTURE(simd_name(simd), n, has_groups);
                    FidelityFigures figures;
                    add_fidelity(simd, cast, x.data(), y.data(), codes.data(), n, figures);
                    CHECK(all_bits(figures) == all_bits(expected));
                    // A second call continues with the sums of the first.
                    FidelityFigures parts;
                    const std::int64_t first = n / 3;
                    add_fidelity(simd, cast, x.data(), y.data(), codes.data(), first, parts);
                    add_fidelity(simd, cast, x.data() + first, y.data() + first, codes.data() + first, n - first,
                                 parts);
                    CHECK(all_bits(parts) == all_bits(expected));
                }
                const std::vector<std::uint64_t> figures = all_bits(expected);
                for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += figures[i] != 0;
            }
        }
    }
    for (const std::uint64_t count : seen) CHECK(count > 20);
}

TEST_CASE("amax is the largest magnitude, or NaN if any element is NaN", "[emulation][stats]") {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const std::int64_t n : lengths()) {
        std::vector<float> x = numbers(n, Kind::any_finite, 1);
        float top = 0;
        for (const float v : x) top = definition::max_or_nan(top, std::fabs(v));
        for_each_engine([&](Simd simd, ThreadPool& pool) {
            CAPTURE(n);
            CHECK(bits(amax_array(simd, pool, x.data(), n)) == bits(top));
            CHECK_FALSE(any_nonfinite_array(simd, pool, x.data(), n));
            // In a short array, tests every place. In a long array, tests the ends and the middle.
            for (std::int64_t place = 0; place < n; place += n <= 65 ? 1 : std::max<std::int64_t>(1, (n - 1) / 2)) {
                auto& spoiled = x[static_cast<std::size_t>(place)];
                const float was = spoiled;
                spoiled = -inf;
                const bool found_inf = any_nonfinite_array(simd, pool, x.data(), n);
                const float with_inf = amax_array(simd, pool, x.data(), n);
                spoiled = -nan;
                const bool found_nan = any_nonfinite_array(simd, pool, x.data(), n);
                const float with_nan = amax_array(simd, pool, x.data(), n);
                spoiled = was;
                if (found_inf && found_nan && with_inf == inf && bits(with_nan) == 0x7fc00000u) continue;
                CAPTURE(place, with_inf, bits(with_nan));
                CHECK(found_inf);
                CHECK(found_nan);
                CHECK(with_inf == inf);
                CHECK(bits(with_nan) == 0x7fc00000u);
            }
        });
    }
}

TEST_CASE("every engine adds error sums in fp64, in the order of lane_sum", "[emulation][stats]") {
    for (const std::int64_t n : lengths()) {
        for (const Kind kind : {Kind::moderate, Kind::any_finite, Kind::any_bits}) {
            for (const float scale : {1.0f, 0.3f, 1e30f}) {
                const std::vector<float> x = numbers(n, kind, 2), y = numbers(n, kind, 3);
                std::uint64_t finite = 0;
                const auto wanted = lane_sum<definition::ErrorTerms>(n, [&](std::int64_t i) {
                    const float b = definition::decoded(y[static_cast<std::size_t>(i)], scale),
                                a = x[static_cast<std::size_t>(i)];
                    finite += std::isfinite(a) && std::isfinite(b);
                    return definition::error_terms(a, b);
                });
                for_each_engine([&](Simd simd, ThreadPool& pool) {
                    CAPTURE(n, int(kind), scale);
                    const ErrorSums sums = compare_arrays(simd, pool, x.data(), y.data(), n, scale);
                    CHECK(bits(sums.error2) == bits(wanted.error2));
                    CHECK(bits(sums.x2) == bits(wanted.x2));
                    CHECK(bits(sums.y2) == bits(wanted.y2));
                    CHECK(bits(sums.xy) == bits(wanted.xy));
                    CHECK(sums.count == finite);
                });
            }
        }
    }
}

TEST_CASE("error sums of known numbers are exact, and skip numbers that are not finite", "[emulation][stats]") {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const std::vector<float> x{1, 2, -3, inf, 5, std::numeric_limits<float>::quiet_NaN()}, y{0.5f, 1, -1, 4, inf, 6};
    for_each_engine([&](Simd simd, ThreadPool& pool) {
        const ErrorSums sums = compare_arrays(simd, pool, x.data(), y.data(), 6, 2);
        CHECK(sums.count == 3);
        CHECK(sums.error2 == 1);  // the finite y, times the decode scale 2, are 1, 2 and -2
        CHECK(sums.x2 == 14);
        CHECK(sums.y2 == 9);
        CHECK(sums.xy == 11);
    });
}

TEST_CASE("every engine adds the sum of squares in fp32, in the order of the definition", "[emulation][stats]") {
    for (const std::int64_t n : lengths()) {
        for (const Kind kind : {Kind::moderate, Kind::any_finite, Kind::any_bits}) {
            const std::vector<float> x = numbers(n, kind, 4);
            const float wanted = definition::sum_of_squares(x.data(), n);
            for_each_engine([&](Simd simd, ThreadPool& pool) {
                CAPTURE(n, int(kind));
                CHECK(bits(sum_of_squares_array(simd, pool, x.data(), n)) == bits(wanted));
            });
        }
    }
}

TEST_CASE("in sums of more than 1024 * 1024 numbers, the sums of chunks are themselves added in chunks",
          "[emulation][stats]") {
    constexpr std::int64_t n = 2 * 1024 * 1024 + 4321;
    const std::vector<float> x = numbers(n, Kind::moderate, 5), y = numbers(n, Kind::moderate, 6);
    const float squares = definition::sum_of_squares(x.data(), n);
    const auto errors = lane_sum<definition::ErrorTerms>(n, [&](std::int64_t i) {
        return definition::error_terms(x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(i)]);
    });
    for_each_engine([&](Simd simd, ThreadPool& pool) {
        CHECK(bits(sum_of_squares_array(simd, pool, x.data(), n)) == bits(squares));
        CHECK(bits(compare_arrays(simd, pool, x.data(), y.data(), n).xy) == bits(errors.xy));
    });
}

TEST_CASE("the exponent histogram counts floor(log2 |x|)", "[emulation][stats]") {
    for (const std::int64_t n : lengths()) {
        for (const Kind kind : {Kind::moderate, Kind::any_bits}) {
            std::vector<float> x = numbers(n, kind, 7);
            for (std::size_t i = 0; i < x.size() && i < 200; ++i) {
                if (i % 3 == 0) x[i] = std::ldexp(i % 2 == 0 ? 1.0f : -1.75f, -149 + static_cast<int>(i));
            }
            ExponentHistogram wanted;
            for (const float v : x) {
                if (std::isnan(v))
                    ++wanted.nans;
                else if (std::isinf(v))
                    ++wanted.infinities;
                else if (v == 0)
                    ++wanted.zeros;
                else
                    ++wanted.bins[static_cast<std::size_t>(std::ilogb(v) - wanted.lowest)];
            }
            for_each_engine([&](Simd simd, ThreadPool& pool) {
                CAPTURE(n, int(kind));
                const ExponentHistogram histogram = exponents_array(simd, pool, x.data(), n);
                CHECK(histogram.bins == wanted.bins);
                CHECK(histogram.zeros == wanted.zeros);
                CHECK(histogram.infinities == wanted.infinities);
                CHECK(histogram.nans == wanted.nans);
            });
        }
    }
}

}  // namespace stats_test
