// SPDX-License-Identifier: Apache-2.0
// Tests Float<F>. Its fast paths through fp32 and fp64 are compared with the general function op() on every pair of
// 8-bit codes and on hard operands of the wider formats. Other tests cover limits, conversions and text.
#include "core/types/float.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "core/text/float_print.hpp"
#include "tests/test.hpp"

#include <array>
#include <cmath>
#include <unordered_set>

namespace float_test {

using namespace macheps;

namespace {

template <Format F>
struct Tag {
    static constexpr Format format = F;
};

/// Calls work(Tag<F>) for every format of the table.
template <class Work>
void for_all_formats(const Work& work) {
    [&]<std::size_t... i>(std::index_sequence<i...>) { (work(Tag<all_formats[i].format>{}, all_formats[i].name), ...); }
    (std::make_index_sequence<all_formats.size()>{});
}

template <Format F>
std::string differs(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    using Number = Float<F>;
    const auto x = Number::from_bits(a), y = Number::from_bits(b), z = Number::from_bits(c);
    const std::array<std::pair<Operation, Number>, 6> results{{{Operation::add, x + y},
                                                               {Operation::sub, x - y},
                                                               {Operation::mul, x * y},
                                                               {Operation::div, x / y},
                                                               {Operation::sqrt, sqrt(x)},
                                                               {Operation::fma, fma(x, y, z)}}};
    for (const auto& [operation, got] : results) {
        const std::uint64_t want = op(operation, F, a, b, c, Round::nearest_even).bits;
        if (got.bits() != want) {
            return fmt::format("operation {} of {:x} {:x} {:x}: {:x}, op {:x}", static_cast<int>(operation), a, b, c,
                               got.bits(), want);
        }
    }
    return "";
}

std::uint64_t word(std::uint32_t seed, std::uint64_t i) {
    const PhiloxBlock block = random_block({.seed = seed}, i);
    return std::uint64_t{block.word[0]} << 32 | block.word[1];
}

}  // namespace

TEST_CASE("Float agrees with the general op() on every pair of codes of up to 8 bits", "[core][float]") {
    for_all_formats([](auto tag, std::string_view name) {
        constexpr Format F = decltype(tag)::format;
        if constexpr (F.bits <= 8) {
            CAPTURE(name);
            std::string first;
            for (std::uint64_t a = 0; a < std::uint64_t{1} << F.bits; ++a) {
                for (std::uint64_t b = 0; b < std::uint64_t{1} << F.bits; ++b) {
                    const std::uint64_t c = word(1, a << 8 | b) & (F.sign_bit() | F.magnitude_mask());
                    const std::string text = differs<F>(a, b, c);
                    if (first.empty()) first = text;
                }
            }
            CHECK(first == "");
        }
    });
}

TEST_CASE("Float agrees with the general op() on random and near-cancelling operands of the wider formats",
          "[core][float]") {
    for_all_formats([](auto tag, std::string_view name) {
        constexpr Format F = decltype(tag)::format;
        if constexpr (F.bits > 8) {
            CAPTURE(name);
            const std::uint64_t mask = (F.sign_bit() | F.magnitude_mask());
            std::string first;
            for (std::uint64_t i = 0; i < 60000; ++i) {
                const std::uint64_t a = word(2, i) & mask, any = word(3, i);
                // For odd i, |a b| is close to 1. In half of these cases c is -1, so that fma nearly cancels.
                const std::uint64_t b =
                    i % 2 == 0 ? any & mask
                               : (any & F.sign_bit()) |
                                     ((2 * encode64(F, 1.0, Round::nearest_even, Overflow::saturate) >> F.padding) -
                                      (a & F.magnitude_mask()));
                const std::uint64_t c =
                    i % 4 < 2 ? word(4, i) & mask
                              : encode64(F, 1.0, Round::nearest_even, Overflow::saturate) >> F.padding | F.sign_bit();
                const std::string text = differs<F>(a << F.padding, (b & mask) << F.padding, c << F.padding);
                if (first.empty()) first = text;
            }
            CHECK(first == "");
        }
    });
}

TEST_CASE("Float's fma uses native arithmetic only if this cannot round twice", "[core][float]") {
    using Half = Float<fp16>;
    using Brain = Float<bf16>;
    CHECK(fma(Half::from_bits(0x3e00), Half::from_bits(0x3956), Half::from_bits(0x0001)).bits() == 0x3c01);
    CHECK(fma(Brain::from_bits(0x40e0), Brain::from_bits(0x3e14), Brain::from_bits(0x8001)).bits() == 0x3f81);
    CHECK(detail::way_of(bf16, true) == detail::Way::exact_integers);
    CHECK(detail::way_of(tf32, true) == detail::Way::exact_integers);
}

TEST_CASE("numeric_limits agrees with the codes of the format", "[core][float]") {
    for_all_formats([](auto tag, std::string_view name) {
        constexpr Format F = decltype(tag)::format;
        using Number = Float<F>;
        using Limits = std::numeric_limits<Number>;
        CAPTURE(name);
        CHECK(Limits::is_specialized);
        CHECK(isfinite(Limits::max()));
        CHECK(double(Limits::lowest()) == (F.has_sign() ? -double(Limits::max()) : double(Limits::min())));
        CHECK(double(Limits::min()) == Format::power_of_two(F.emin()));
        CHECK(std::ilogb(double(Limits::max())) == Limits::max_exponent - 1);
        CHECK(std::ilogb(double(Limits::min())) == Limits::min_exponent - 1);
        CHECK(std::floor(std::log10(double(Limits::max()))) == Limits::max_exponent10);
        CHECK(std::ceil(std::log10(double(Limits::min()))) == Limits::min_exponent10);
        if (F.encoding == Encoding::binary) {
            const Number one(1);
            CHECK(double(nextafter(one, Limits::max())) - 1 == double(Limits::epsilon()));
            CHECK(nextafter(Number(0), one) == Limits::denorm_min());
        }
        CHECK(isinf(Limits::infinity()) == Limits::has_infinity);
        CHECK(isnan(Limits::quiet_NaN()) == Limits::has_quiet_NaN);
        CHECK(isnan(Limits::signaling_NaN()) == Limits::has_signaling_NaN);
    });
    CHECK(std::numeric_limits<Float<fp32>>::digits10 == std::numeric_limits<float>::digits10);
    CHECK(std::numeric_limits<Float<fp64>>::max_digits10 == std::numeric_limits<double>::max_digits10);
    CHECK(std::numeric_limits<Float<fp64>>::min_exponent10 == std::numeric_limits<double>::min_exponent10);
    CHECK(std::numeric_limits<Float<bf16>>::max_digits10 == 4);
    CHECK(std::numeric_limits<Float<e4m3fn>>::max_digits10 == 3);
}

TEST_CASE("conversion to Float rounds once, and reading a Float back adds no error", "[core][float]") {
    CHECK(Float<fp16>(0x1.002000000001p0).bits() == 0x3c01);  // rounding to fp32 first would give 3c00
    CHECK(Float<e4m3fn>(464).bits() == 0x7e);
    CHECK(Float<e4m3fn>(465).bits() == 0x7f);
    CHECK(Float<bf16>((std::uint64_t{1} << 63) + (std::uint64_t{1} << 55) + 1).bits() == 0x5f01);
    CHECK(Float<fp32>(std::numeric_limits<std::int64_t>::min()).bits() == 0xdf000000);
    CHECK(static_cast<int>(Float<fp16>(-2.75)) == -2);
    CHECK(static_cast<std::int8_t>(Float<fp16>(1000)) == 127);
    CHECK(static_cast<int>(std::numeric_limits<Float<fp16>>::quiet_NaN()) == 0);
    CHECK(Float<e5m2>(Float<fp16>(0.1)).bits() == 0x2e);
    static_assert(Float<fp16>(1) / Float<fp16>(3) == Float<fp16>(0x1.554p-2));
    static_assert(isinf(Float<fp16>(1) / Float<fp16>(0)));
    static_assert(sizeof(Float<e2m1fn>) == 1 && sizeof(Float<tf32>) == 4 && std::is_trivially_copyable_v<Float<bf16>>);
}

TEST_CASE("negation, abs, copysign, fmin and fmax are right for zeros and NaNs, with and without -0", "[core][float]") {
    using Half = Float<fp16>;
    using Fnuz = Float<e4m3fnuz>;
    CHECK((-Half(0)).bits() == 0x8000);
    CHECK(abs(-Half(2)) == Half(2));
    CHECK(abs(Half::from_bits(0xfe00)).bits() == 0x7e00);
    CHECK(copysign(Half(2), Half::from_bits(0x8000)) == Half(-2));
    CHECK((-Fnuz(0)).bits() == 0);
    CHECK(isnan(-std::numeric_limits<Fnuz>::quiet_NaN()));
    CHECK(fmax(Half(1), std::numeric_limits<Half>::quiet_NaN()) == Half(1));
    CHECK(fmin(std::numeric_limits<Half>::quiet_NaN(), Half(1)) == Half(1));
    CHECK_FALSE(Half(1) < std::numeric_limits<Half>::quiet_NaN());
    CHECK((Half(1) <=> std::numeric_limits<Half>::quiet_NaN()) == std::partial_ordering::unordered);
}

TEST_CASE("equal Floats have equal hashes", "[core][float]") {
    using Half = Float<fp16>;
    const std::hash<Half> hash;
    CHECK(hash(Half(0)) == hash(-Half(0)));
    CHECK(hash(Half::from_bits(0x7e01)) == hash(Half::from_bits(0xfe00)));
    CHECK(std::unordered_set<Half>{Half(1), Half(2), Half(1)}.size() == 2);
}

TEST_CASE("a Float prints as the shortest decimal that reads back, unless a format specification is given",
          "[core][float]") {
    CHECK(fmt::format("{}", Float<fp16>(0.1)) == "0.1");
    CHECK(fmt::format("{:.6f}", Float<fp16>(0.1)) == "0.099976");
    CHECK(fmt::format("{:>8}", Float<bf16>(1.5)) == "     1.5");
    CHECK(fmt::format("{}", std::numeric_limits<Float<fp16>>::infinity()) == "inf");
    std::ostringstream out;
    out << Float<e4m3fn>(0.1);
    CHECK(out.str() == "0.1");
}

TEST_CASE("exp, log, sin, cos, tanh and erf are faithful: they return one of the two values around the exact result",
          "[core][float]") {
    using Half = Float<fp16>;
    int wrong = 0;
    for (std::uint64_t code = 0; code < 0x10000; ++code) {
        const Half x = Half::from_bits(code);
        if (!isfinite(x)) continue;
        const auto check = [&](Half got, double exact) {
            const std::uint64_t low = encode64(fp16, exact, Round::down, Overflow::nonsaturate),
                                high = encode64(fp16, exact, Round::up, Overflow::nonsaturate);
            wrong += got.bits() != low && got.bits() != high && !(isnan(got) && std::isnan(exact)) &&
                     double(got) != decode64(fp16, low);
        };
        check(exp(x), std::exp(double(x)));
        check(log(x), std::log(double(x)));
        check(sin(x), std::sin(double(x)));
        check(cos(x), std::cos(double(x)));
        check(tanh(x), std::tanh(double(x)));
        check(erf(x), std::erf(double(x)));
    }
    CHECK(wrong == 0);
}

}  // namespace float_test
