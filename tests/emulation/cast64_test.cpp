// SPDX-License-Identifier: Apache-2.0
// Compares casts of arrays from fp64 with their scalar definition. The cast of an array first rounds to odd in fp32,
// while the definition decomposes the fp64 number.
#include "emulation/cpu/ops/casts/cast64.hpp"
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace cast64_test {

using namespace macheps;

namespace {

/// Returns values of the format, midpoints between them, fp64 and fp32 numbers close to these, special numbers and
/// random numbers.
std::vector<double> hard_numbers(const Format& f) {
    std::vector<double> at{0,
                           1,
                           3e38,
                           3.5e38,
                           1e300,
                           1e-300,
                           0x1p-149,
                           0x1p-150,
                           0x1.8p-150,
                           0x1p-126,
                           0x1.fffffep127,
                           0x1.ffffffp127,
                           5e-324,
                           std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()};
    std::mt19937_64 random(7);
    const std::uint64_t codes = f.max_finite_code() + 1;
    for (int i = 0; i < 400; ++i) {
        const std::uint64_t code = codes <= 400 ? static_cast<std::uint64_t>(i) % codes : random() % codes;
        const double here = decode64(f, code << f.padding),
                     next = decode64(f, std::min(code + 1, f.max_finite_code()) << f.padding);
        for (const double x : {here, here / 2 + next / 2}) {
            const auto narrow = static_cast<float>(x);
            at.insert(at.end(),
                      {x, std::nextafter(x, 1e308), std::nextafter(x, -1e308), double{std::nextafter(narrow, 1e38f)},
                       double{std::nextafter(narrow, -1e38f)}, x * (1 + 0x1p-30), x * (1 - 0x1p-30)});
        }
        at.push_back(std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 320) - 210));
    }
    const std::size_t positive = at.size();
    for (std::size_t i = 0; i < positive; ++i) at.push_back(-at[i]);
    return at;
}

bool same(double a, double b) { return bit_cast<std::uint64_t>(a) == bit_cast<std::uint64_t>(b); }

}  // namespace

TEST_CASE("vector code rounds to odd as the scalar definition does", "[emulation][cast64]") {
    const std::vector<double> x = hard_numbers(fp32);
    std::vector<float> out(x.size());
    for (const Simd simd : available_simd()) {
        for (std::size_t first = 0; first < 17; ++first) {
            round_to_odd(simd, x.data() + first, out.data(), static_cast<std::int64_t>(x.size() - first));
            for (std::size_t i = first; i < x.size(); ++i) {
                CAPTURE(simd_name(simd), x[i]);
                const float want = round_to_odd(x[i]), got = out[i - first];
                REQUIRE(((std::isnan(want) && std::isnan(got)) ||
                         bit_cast<std::uint32_t>(got) == bit_cast<std::uint32_t>(want)));
                REQUIRE(std::signbit(got) == std::signbit(want));
            }
        }
    }
}

TEST_CASE("a cast from fp64 agrees with its definition in every format and mode", "[emulation][cast64]") {
    ThreadPool pool(2);
    std::size_t compared = 0;
    for (const NamedFormat& row : all_formats) {
        const std::vector<double> x = hard_numbers(row.format);
        const auto n = static_cast<std::int64_t>(x.size());
        for (const RoundName& mode : round_names) {
            for (const Overflow overflow : {Overflow::nonsaturate, Overflow::saturate}) {
                Cast cast{.format = row.format, .round = mode.value, .overflow = overflow};
                if (mode.value == Round::stochastic) cast.key = {5, 1, 2};
                std::vector<std::uint64_t> want(x.size());
                std::vector<double> value(x.size());
                for (std::size_t i = 0; i < x.size(); ++i) {
                    const RandomBits random{mode.value == Round::stochastic ? random_bits(cast.key, i) : 0, 32};
                    want[i] = encode64(row.format, x[i], mode.value, overflow, random);
                    value[i] = decode64(row.format, want[i]);
                }
                const bool fits = row.format.container_bits() <= 32;
                for (const Simd simd : available_simd()) {
                    std::vector<double> out(x.size());
                    std::vector<std::uint64_t> wide(x.size());
                    std::vector<std::uint32_t> codes(x.size());
                    cast_array64(simd, pool, x.data(), out.data(), n, cast, 1);
                    encode_array64(simd, pool, x.data(), wide.data(), n, cast, 1);
                    if (fits) encode_array64(simd, pool, x.data(), codes.data(), n, cast, 1);
                    for (std::size_t i = 0; i < x.size(); ++i) {
                        if (wide[i] == want[i] && (!fits || codes[i] == want[i]) && same(out[i], value[i])) continue;
                        CAPTURE(row.name, mode.name, simd_name(simd), x[i], want[i], wide[i], codes[i], out[i]);
                        FAIL_CHECK("the code or the value differs from the definition's");
                        break;  // one example of each kind is enough
                    }
                }
                ++compared;
            }
        }
    }
    CHECK(compared == std::size(all_formats) * std::size(round_names) * 2);
}

TEST_CASE("a stochastic cast from fp64 uses the requested number of bits of each element's own random word",
          "[emulation][cast64]") {
    ThreadPool pool(1);
    for (const Format& f : {e4m3fn, e5m2fnuz, e2m1fn, bf16, fp16, tf32}) {
        const std::vector<double> x = hard_numbers(f);
        for (const int bits : {1, 7, 24, 32}) {
            const Cast cast{.format = f, .round = Round::stochastic, .key = {11, 3, 4}, .random_bits = bits};
            for (const std::int64_t first_element : {std::int64_t{4}, std::int64_t{1} << 33, std::int64_t{7}}) {
                for (const std::size_t n : {std::size_t{1}, std::size_t{31}, std::size_t{129}, x.size()}) {
                    for (const Simd simd : available_simd()) {
                        std::vector<double> out(n);
                        std::vector<std::uint32_t> codes(n);
                        const auto count = static_cast<std::int64_t>(n);
                        cast_array64(simd, pool, x.data(), out.data(), count, cast, 0.3, nullptr, first_element);
                        encode_array64(simd, pool, x.data(), codes.data(), count, cast, 0.3, nullptr, first_element);
                        std::vector<std::size_t> wrong;
                        for (std::size_t i = 0; i < n; ++i) {
                            const std::uint32_t word =
                                random_bits(cast.key, static_cast<std::uint64_t>(first_element) + i);
                            const std::uint64_t want =
                                encode64(f, x[i] * 0.3, cast.round, cast.overflow, {word >> (32 - bits), bits});
                            if (codes[i] != want || !same(out[i], decode64(f, want))) wrong.push_back(i);
                        }
                        CAPTURE(format_name(f), bits, first_element, n, simd_name(simd));
                        REQUIRE(wrong == std::vector<std::size_t>{});
                    }
                }
            }
        }
    }
}

TEST_CASE("a cast from fp64 multiplies by the scale in fp64, and its tally describes the fp64 inputs",
          "[emulation][cast64]") {
    ThreadPool pool(1);
    const std::vector<double> x{0.1,
                                -3,
                                1e300,
                                5e-324,
                                0,
                                7e4,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
    std::vector<double> out(x.size());
    Tally64 tally;
    const Cast cast{.format = fp16};
    cast_array64(chosen_simd(), pool, x.data(), out.data(), static_cast<std::int64_t>(x.size()), cast, 0.3, &tally);
    std::vector<double> plain(x.size());
    cast_array64(chosen_simd(), pool, x.data(), plain.data(), static_cast<std::int64_t>(x.size()), cast, 0.3);
    for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(same(out[i], decode64(fp16, encode64(fp16, x[i] * 0.3, Round::nearest_even, Overflow::nonsaturate))));
        CHECK(same(out[i], plain[i]));
    }
    CHECK(tally.counts.count == 8);
    CHECK(tally.counts.nan_in == 1);
    CHECK(tally.counts.inf_in == 1);
    CHECK(tally.counts.zero_in == 1);
    CHECK(tally.counts.underflow == 1);
    CHECK(tally.counts.overflow == 1);
    CHECK(tally.amax == 1e300);
    CHECK(tally.amin_nz == 5e-324);
}

TEST_CASE("a cast from fp64 is refused if codes do not fit in the output type or a random key is missing",
          "[emulation][cast64]") {
    ThreadPool pool(1);
    const double x = 1;
    std::uint8_t code = 0;
    CHECK_THROWS_AS(encode_array64(Simd::scalar, pool, &x, &code, 1, Cast{.format = bf16}, 1), Error);
    CHECK_THROWS_AS(
        encode_array64(Simd::scalar, pool, &x, &code, 1, Cast{.format = e4m3fn, .round = Round::stochastic}, 1), Error);
}

}  // namespace cast64_test
