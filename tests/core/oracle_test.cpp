// SPDX-License-Identifier: Apache-2.0
// Compares the codec with the rounding oracle, which finds each result by a search, in every format and rounding mode
// and under both overflow rules.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "tests/oracle/rounding_oracle.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace oracle_test {

using namespace macheps;
using oracle::RoundingOracle;

namespace {

constexpr Round all_modes[] = {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up,
                               Round::down,         Round::stochastic,   Round::to_odd};
constexpr Overflow both_rules[] = {Overflow::nonsaturate, Overflow::saturate};
constexpr int random_widths[] = {32, 20, 16, 13, 8, 1};

/// Compares the codec with the oracle in one format. Each input is checked in all modes and under both overflow rules.
/// All mismatches are counted, and the first ten are described.
class Comparison {
  public:
    explicit Comparison(const NamedFormat& named) : named_(named), oracle_(named.name) {}

    const RoundingOracle& oracle() const { return oracle_; }
    std::uint64_t compared() const { return compared_; }
    std::uint64_t mismatches() const { return mismatches_; }
    const std::string& report() const { return report_; }

    template <class Source>
    void check(Source x) {
        const bool finite = std::isfinite(x);
        const auto near = finite ? oracle_.find(x) : oracle::Neighbours{};
        const std::uint32_t bits = random_bits({.seed = 7}, compared_);
        const int width = random_widths[bits % std::size(random_widths)];
        const std::uint32_t random = width == 32 ? bits : bits >> (32 - width);
        for (const auto mode : all_modes) {
            for (const auto rule : both_rules) {
                ++compared_;
                const auto got = encode64(named_.format, x, mode, rule, {random, width});
                const auto want = oracle_.code(x, near, mode, rule, random, width);
                if (got == want) continue;
                if (++mismatches_ <= 10) {
                    report_ += fmt::format("{} {}({:a}) mode {} {}: {:x}, oracle {:x} (random {:x}/{})\n", named_.name,
                                           sizeof(Source) == 4 ? "fp32" : "fp64", static_cast<double>(x),
                                           static_cast<int>(mode), rule == Overflow::saturate ? "sat" : "nosat", got,
                                           want, random, width);
                }
            }
        }
    }

    /// Checks x, -x and the numbers up to two ulps away from them as fp64 inputs. If `x` is an fp32 number, also checks
    /// x, -x and their neighbours in fp32 as fp32 inputs.
    void check_around(double x) {
        check_around_in(x);
        if (static_cast<double>(static_cast<float>(x)) == x) check_around_in(static_cast<float>(x));
    }

  private:
    template <class Source>
    void check_around_in(Source x) {
        constexpr Source infinity = std::numeric_limits<Source>::infinity();
        for (const Source signed_x : {x, -x}) {
            const Source up = std::nextafter(signed_x, infinity), down = std::nextafter(signed_x, -infinity);
            for (const Source y : {signed_x, up, std::nextafter(up, infinity), down, std::nextafter(down, -infinity)}) {
                check(y);
            }
        }
    }

    const NamedFormat& named_;
    RoundingOracle oracle_;
    std::uint64_t compared_ = 0, mismatches_ = 0;
    std::string report_;
};

/// Checks random inputs that are chosen for the format. A third are arbitrary bit patterns. The other inputs lie in or
/// near the format's range. Half of these lie at most two ulps (of the input) above a value of the format, or above the
/// midpoint of two values.
template <class Source, class Bits>
void check_random(Comparison& comparison, Format f, std::uint64_t count, std::uint64_t seed) {
    constexpr int fraction_bits = sizeof(Source) == 4 ? 23 : 52, bias = sizeof(Source) == 4 ? 127 : 1023;
    const int top = f.encoding == Encoding::fixed_point ? 1 : std::ilogb(decode64(f, f.max_finite_code() << f.padding));
    const int low = max_of(f.emin() - f.precision - 2, 1 - bias), high = min_of(top + 2, bias);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto words = random_block({.seed = seed}, i);
        Bits bits = static_cast<Bits>(std::uint64_t{words.word[0]} << 32 | words.word[1]);
        if (words.word[2] % 3 != 0) {
            const int exponent = low + static_cast<int>(words.word[2] / 3 % static_cast<std::uint32_t>(high - low + 1));
            Bits fraction = bits & ((Bits{1} << fraction_bits) - 1);
            if (words.word[2] % 3 == 2 && fraction_bits > f.precision) {
                const int cleared = fraction_bits - f.precision;  // keeps the rounding bit, clears the bits below it
                fraction = (fraction >> cleared << cleared) + words.word[3] % 3;
            }
            bits = (bits >> (8 * sizeof(Bits) - 1) << (8 * sizeof(Bits) - 1)) |
                   static_cast<Bits>(exponent + bias) << fraction_bits | fraction;
        }
        comparison.check(bit_cast<Source>(bits));
    }
}

void check_random(std::uint64_t count) {
    for (const auto& named : all_formats) {
        Comparison comparison(named);
        check_random<float, std::uint32_t>(comparison, named.format, count, 1);
        check_random<double, std::uint64_t>(comparison, named.format, count, 2);
        INFO(comparison.report());
        CHECK(comparison.mismatches() == 0);
        CHECK(comparison.compared() == count * 2 * 14);
    }
}

}  // namespace

TEST_CASE("codec agrees with the oracle on every value, every midpoint and their neighbours", "[core][oracle]") {
    for (const auto& named : all_formats) {
        Comparison comparison(named);
        std::vector<double> values = comparison.oracle().values();
        if (values.empty()) {  // fp32, fp64: every exponent, with fractions at both ends and in the middle
            const int bias = named.format.exponent_bias, p = named.format.precision;
            for (int e = 1 - bias - p; e <= bias; ++e) {
                for (const double s : {1.0, 1.0 + std::ldexp(1.0, 1 - p), 1.5, 2.0 - std::ldexp(1.0, 1 - p)}) {
                    const double value = std::ldexp(s, e);
                    values.push_back(named.format == fp32 ? static_cast<double>(static_cast<float>(value)) : value);
                }
            }
            values.push_back(0);
        } else {
            // Adds the value that would follow the largest one, so that it and the midpoint before it are checked.
            values.push_back(comparison.oracle().find(values.back()).high);
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            comparison.check_around(values[i]);
            if (named.format == fp64) continue;
            const double next = named.format == fp32    ? comparison.oracle().find(values[i]).high
                                : i + 1 < values.size() ? values[i + 1]
                                                        : values[i];
            comparison.check_around(values[i] + (next - values[i]) / 2);
        }
        INFO(comparison.report());
        CHECK(comparison.mismatches() == 0);
    }
}

TEST_CASE("codec agrees with the oracle on zeros, infinities, NaNs and the ends of the source formats",
          "[core][oracle]") {
    for (const auto& named : all_formats) {
        Comparison comparison(named);
        for (const std::uint32_t magnitude : {0x00000000u, 0x00000001u, 0x00400000u, 0x007fffffu, 0x00800000u,
                                              0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
            comparison.check(bit_cast<float>(magnitude));
            comparison.check(bit_cast<float>(magnitude | 0x80000000u));
        }
        for (const std::uint64_t magnitude :
             {0x0000000000000000ull, 0x0000000000000001ull, 0x000fffffffffffffull, 0x0010000000000000ull,
              0x7fefffffffffffffull, 0x7ff0000000000000ull, 0x7ff0000000000001ull, 0x7ff8000000000000ull,
              0x47efffffefffffffull, 0x47effffff0000000ull}) {
            comparison.check(bit_cast<double>(magnitude));
            comparison.check(bit_cast<double>(magnitude | 0x8000000000000000ull));
        }
        INFO(comparison.report());
        CHECK(comparison.mismatches() == 0);
    }
}

TEST_CASE("codec agrees with the oracle on random inputs", "[core][oracle]") { check_random(50'000); }

TEST_CASE("codec agrees with the oracle on a million random inputs per format, mode and rule", "[core][oracle][slow]") {
    check_random(1'000'000);
}

}  // namespace oracle_test
