// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/exact_number.hpp"

#include "core/text/print.hpp"
#include "core/ulp.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace macheps::study {

namespace {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

/// Returns the leading 62 or 63 bits of |x|, which suffice for one correct rounding. The last bit is also set if any
/// lower bit of x is set.
Unpacked unpack_ratio(const cpp_rational& x, bool is_negative) {
    if (x == 0) return {Unpacked::Kind::finite, is_negative, 0, 0};
    cpp_int above = abs(numerator(x)), below = denominator(x);
    const int exponent = static_cast<int>(msb(above)) - static_cast<int>(msb(below)) - 62;
    if (exponent < 0) {
        above <<= -exponent;
    } else {
        below <<= exponent;
    }
    cpp_int whole, rest;
    divide_qr(above, below, whole, rest);
    return {Unpacked::Kind::finite, is_negative, static_cast<std::uint64_t>(whole) | (rest != 0 ? 1u : 0u), exponent};
}

/// Parses the exponent of a number. Limits its magnitude to 10^6, which is beyond every format.
std::int64_t exponent_in(std::string_view text) {
    constexpr std::int64_t most = 1000000;
    const bool is_negative = text.starts_with("-");
    if (is_negative || text.starts_with("+")) text.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    exponent = error == std::errc::result_out_of_range ? most : std::min(exponent, most);
    return is_negative ? -exponent : exponent;
}

/// Returns the magnitude of a number that parse_number accepts. The text has no sign.
cpp_rational magnitude_of(std::string_view text) {
    const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    if (is_hexadecimal) text.remove_prefix(2);
    const std::size_t letter = text.find_first_of(is_hexadecimal ? "pP" : "eE");
    std::int64_t exponent = letter == std::string_view::npos ? 0 : exponent_in(text.substr(letter + 1));
    std::string digits;
    std::int64_t behind_point = 0;
    bool has_point = false;
    for (const char c : text.substr(0, letter)) {
        if (c == '.') {
            has_point = true;
        } else {
            digits += c;
            behind_point += has_point ? 1 : 0;
        }
    }
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
    if (digits.empty()) return 0;
    exponent -= behind_point * (is_hexadecimal ? 4 : 1);
    const std::int64_t most = is_hexadecimal ? 1400 : 400,  // 2^1400 and 10^400 are beyond fp64
        leading = exponent + static_cast<std::int64_t>(digits.size()) * (is_hexadecimal ? 4 : 1);
    const cpp_int base = is_hexadecimal ? 2 : 10;
    if (leading > most + 4) return pow(base, static_cast<unsigned>(most));
    if (leading < -most) return cpp_rational(1, pow(base, static_cast<unsigned>(most)));
    const cpp_int whole((is_hexadecimal ? "0x" : "") + digits),
        power = pow(base, static_cast<unsigned>(std::abs(exponent)));
    return exponent < 0 ? cpp_rational(whole, power) : cpp_rational(whole * power);
}

/// Returns the square root of x > 0, cut off at least 200 bits below its leading bit.
cpp_rational root_of(const cpp_rational& x) {
    const auto bits = [](const cpp_int& whole) { return static_cast<int>(msb(whole)); };
    const int shift = 200 + std::max(0, bits(denominator(x)) - bits(numerator(x)));
    const cpp_int scaled = (numerator(x) << (2 * shift)) / denominator(x);
    return {sqrt(scaled), cpp_int(1) << shift};
}

/// Reads an integer, such as the numerator or denominator of a fraction.
std::optional<cpp_rational> read_whole(std::string_view text) {
    const bool is_negative = text.starts_with("-");
    if (!parse_number(text)) return std::nullopt;
    if (is_negative || text.starts_with("+")) text.remove_prefix(1);
    const bool is_decimal = text.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
    if (!is_decimal) return std::nullopt;
    const cpp_rational value = magnitude_of(text);
    if (denominator(value) != 1) return std::nullopt;
    return is_negative ? cpp_rational(-value) : value;
}

}  // namespace

std::optional<ExactNumber> ExactNumber::read(std::string_view text) {
    ExactNumber out;
    out.is_negative_ = text.starts_with("-");
    if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
        const auto above = read_whole(text.substr(0, slash)), below = read_whole(text.substr(slash + 1));
        if (!above || !below || *below == 0) return std::nullopt;
        out.value_ = *above / *below;
        out.is_negative_ =
            out.value_ == 0 ? out.is_negative_ != text.substr(slash + 1).starts_with("-") : out.value_ < 0;
        return out;
    }
    const std::optional<double> value = parse_number(text);
    if (!value) return std::nullopt;
    if (out.is_negative_ || text.starts_with("+")) text.remove_prefix(1);
    if (text.find_first_of("nN") != std::string_view::npos) {  // inf, infinity, nan
        out.special_ = value;
        return out;
    }
    out.value_ = magnitude_of(text);
    if (out.is_negative_) out.value_ = -out.value_;
    return out;
}

ExactNumber ExactNumber::of(double x) {
    ExactNumber out;
    out.is_negative_ = std::signbit(x);
    if (std::isfinite(x)) {
        out.value_ = cpp_rational(x);
    } else {
        out.special_ = x;
    }
    return out;
}

std::optional<ExactNumber> ExactNumber::result_of(Operation operation, double a, double b, double c) {
    if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return {};
    const cpp_rational x(a), y(b), z(c);
    ExactNumber out;
    switch (operation) {
        case Operation::add:
            out.value_ = x + y;
            break;
        case Operation::sub:
            out.value_ = x - y;
            break;
        case Operation::mul:
            out.value_ = x * y;
            break;
        case Operation::div:
            if (y == 0) return {};
            out.value_ = x / y;
            break;
        case Operation::sqrt:
            if (x < 0) return {};
            if (x != 0) out.value_ = root_of(x);
            break;
        case Operation::fma:
            out.value_ = x * y + z;
            break;
    }
    out.is_negative_ = out.value_ < 0;
    return out;
}

Unpacked ExactNumber::parts() const { return special_ ? unpack(*special_) : unpack_ratio(value_, is_negative_); }

std::uint64_t ExactNumber::encode(Format f, Round mode, Overflow overflow, RandomBits random) const {
    // parts() has 62 bits. In fp64, too few of them are below the last place to compare them with the random bits.
    constexpr int bits_of_parts = 62;
    if (mode == Round::stochastic && f.precision + random.bits >= bits_of_parts && random.value != 0) {
        const std::vector<StochasticResult> results = stochastic_results(f, overflow);
        const std::uint64_t drawn = random.bits < 32 ? std::uint64_t{random.value} << (32 - random.bits) : random.value;
        return results[drawn + results.back().words >= std::uint64_t{1} << 32 ? results.size() - 1 : 0].code;
    }
    return detail::encode_unpacked(f, parts(), mode, overflow, random) << f.padding;
}

double ExactNumber::rounded(const Ratio& x, Round mode) {
    return decode64(fp64, detail::encode_unpacked(fp64, unpack_ratio(x, x < 0), mode, Overflow::nonsaturate, {}));
}

double ExactNumber::near() const {
    if (special_) return *special_;
    return value_ == 0 ? std::copysign(0.0, is_negative_ ? -1.0 : 1.0) : rounded(value_, Round::nearest_even);
}

bool ExactNumber::is_near() const { return special_ || (std::isfinite(near()) && cpp_rational(near()) == value_); }

ExactNumber::Distance ExactNumber::distance_of(Format f, double value) const {
    if (special_ || !std::isfinite(value)) {
        const double x = special_.value_or(value_ < 0 ? -1 : 1);  // of a finite number, only the sign matters here
        if (value == x || (std::isnan(value) && std::isnan(x))) return {};
        const double error = value - x;
        return {error, error / std::fabs(x), ulp_error(f, value, x)};
    }
    const Ratio error = Ratio(value) - value_;
    if (error == 0) return {};
    // The ulp is taken in the binade of the exact number. Rounding to nearest could move the number to the next binade.
    const double last_place = ulp(f, rounded(value_, Round::toward_zero));
    const double relative = value_ == 0 ? std::copysign(HUGE_VAL, rounded(error, Round::nearest_even))
                                        : rounded(error / abs(value_), Round::nearest_even);
    return {rounded(error, Round::nearest_even), relative,
            rounded(abs(error) / Ratio(last_place), Round::nearest_even)};
}

std::vector<ExactNumber::StochasticResult> ExactNumber::stochastic_results(Format f, Overflow overflow) const {
    // A format without a sign rounds the magnitude, so rounding away from zero is rounding up.
    const Round outward = is_negative_ && f.has_sign() ? Round::down : Round::up;
    const std::uint64_t truncated = encode(f, Round::stochastic, overflow, {0, 32}),
                        away = encode(f, outward, overflow, {});
    if (truncated == away) return {{.code = truncated}};
    const double low = std::fabs(decode64(f, truncated)), high = std::fabs(decode64(f, away));
    // A number that may overflow lies less than one ulp beyond the largest finite value.
    const Ratio spacing = std::isfinite(high) ? Ratio(high) - Ratio(low) : Ratio(ulp(f, low)),
                share = (abs(value_) - Ratio(low)) / spacing, rest = 1 - share;
    const auto words = static_cast<std::uint64_t>(cpp_int((numerator(share) << 32) / denominator(share)));
    return {{truncated, rounded(rest, Round::nearest_even), rest.str(), (std::uint64_t{1} << 32) - words},
            {away, rounded(share, Round::nearest_even), share.str(), words}};
}

}  // namespace macheps::study
