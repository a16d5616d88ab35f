// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/sum/data.hpp"

#include "core/arithmetic.hpp"
#include "core/error.hpp"
#include "experiments/study/eval/exact_number.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace macheps::study {

namespace {

double rounded_once(const Format& format, double x) {
    return decode64(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
}

/// Returns a random term, rounded to the format. If fp32 contains the format, the term is first rounded to fp32, as the
/// operands of `macheps gemm` are. For other formats, every drawn digit is kept.
double drawn_term(const Format& format, Distribution distribution, Operand operand, std::uint64_t seed,
                  std::int64_t i) {
    const bool is_wide = format.precision > fp32.precision || format.emin() < fp32.emin();
    const double drawn = drawn_wide_element(distribution, operand, seed, 0, i, 1);
    return rounded_once(format, is_wide ? drawn : double{static_cast<float>(drawn)});
}

/// Returns a random number in [0, 1) with 53 bits. The distributions of operands.hpp are made from the same bits.
double drawn_uniform(const char* site, std::uint64_t seed, std::uint64_t p) {
    const PhiloxBlock random = random_block({.seed = seed, .site = site_id(site)}, p);
    const std::uint64_t first = std::uint64_t{random.word[1]} << 32 | random.word[0];
    return static_cast<double>(first >> 11) * 0x1p-53;
}

/// Returns 1 / (i + 1), rounded once.
double harmonic_term(const Format& format, std::int64_t i) {
    const double quotient = 1 / static_cast<double>(i + 1), rest = std::fma(-quotient, static_cast<double>(i + 1), 1.0);
    // If the fp64 quotient is inexact, its last bit is made 1 (rounding to odd). Rounding it to fewer digits then gives
    // the same result as rounding the exact quotient.
    if (format == fp64 || rest == 0 || (bit_cast<std::uint64_t>(quotient) & 1) != 0)
        return rounded_once(format, quotient);
    return rounded_once(format, std::nextafter(quotient, rest > 0 ? 2.0 : 0.0));
}

/// Returns the number of `constant` data, rounded once from the number as typed.
double constant_term(const SumData& data, const Format& format) {
    return decode64(
        format, ExactNumber::read(data.value).value().encode(format, Round::nearest_even, Overflow::nonsaturate, {}));
}

/// Parses the finite number of `equal:VALUE`. Returns nothing for other texts.
std::optional<SumData> parse_constant(std::string_view text) {
    const auto number = ExactNumber::read(text);
    if (!number || !std::isfinite(number->near())) return std::nullopt;
    return SumData{.kind = SumData::Kind::constant, .value = std::string(text), .name = fmt::format("equal:{}", text)};
}

void fill_cancel(SumVectors& out, const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n) {
    const std::int64_t half = n / 2;
    out.x.assign(static_cast<std::size_t>(n), 0);
    out.y.assign(static_cast<std::size_t>(n), 0);
    for (std::int64_t i = 0; i < half; ++i) {
        const auto at = static_cast<std::size_t>(i), twin = static_cast<std::size_t>(i + half);
        const double u = drawn_uniform("gemm.a", seed, at), w = drawn_uniform("gemm.b", seed, at);
        const double size = 0.5 + 0.5 * std::fabs(2 * u - 1);
        out.x[at] = rounded_once(format, u < 0.5 ? -size : size);
        out.y[at] = out.y[twin] = rounded_once(format, 0.5 + 0.5 * w);
        out.x[twin] = -out.x[at];
    }
    const int up = static_cast<int>((data.c + 1) / 2), down = static_cast<int>(data.c / 2);
    const auto last = static_cast<std::size_t>(n - 1), middle = static_cast<std::size_t>(half - 1);
    out.x[middle] = rounded_once(format, Format::power_of_two(-up));
    out.x[last] = rounded_once(format, 1.25 * Format::power_of_two(-up));
    out.y[middle] = out.y[last] = rounded_once(format, Format::power_of_two(-down));
}

}  // namespace

SumData with_c(SumData data, std::int64_t c) {
    if (data.kind != SumData::Kind::cancel) return data;
    data.c = c;
    data.name = fmt::format("cancel:{}", c);
    return data;
}

SumData parse_sum_data(std::string_view text) {
    if (text == "harmonic") return {.kind = SumData::Kind::harmonic, .name = "harmonic"};
    if (text == "cancel") return {.kind = SumData::Kind::cancel, .name = "cancel"};
    constexpr std::string_view cancel = "cancel:", equal = "equal:";
    if (const auto constant = parse_constant(text.starts_with(equal) ? text.substr(equal.size()) : text))
        return *constant;
    if (text.starts_with(cancel)) {
        std::int64_t c = -1;
        const char* end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data() + cancel.size(), end, c);
        if (error == std::errc{} && last == end && c >= 0 && c <= 200)
            return with_c({.kind = SumData::Kind::cancel}, c);
    } else if (const auto distribution = find_distribution(text)) {
        return {.kind = SumData::Kind::drawn, .distribution = *distribution, .name = std::string(text)};
    }
    throw Error(
        {.what = fmt::format("unknown data '{}'", text),
         .where = "--data",
         .fix =
             "use normal, uniform, positive, lognormal, equal, outliers, harmonic, cancel:C with C from 0 to 200, or "
             "equal:VALUE with a finite number, such as equal:0.1",
         .exit = Exit::usage});
}

bool is_beyond(const SumData& data, const Format& format) {
    return data.kind == SumData::Kind::constant && !std::isfinite(constant_term(data, format));
}

SumVectors sum_vectors(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n, bool is_dot) {
    SumVectors out;
    if (data.kind == SumData::Kind::cancel) {
        fill_cancel(out, data, format, seed, n);
        if (!is_dot) out.y.clear();
        return out;
    }
    if (data.kind == SumData::Kind::constant) {
        out.x.assign(static_cast<std::size_t>(n), constant_term(data, format));
        if (is_dot) out.y = out.x;
        return out;
    }
    for (std::int64_t i = 0; i < n; ++i) {
        out.x.push_back(data.kind == SumData::Kind::harmonic
                            ? harmonic_term(format, i)
                            : drawn_term(format, data.distribution, Operand::a, seed, i));
        if (!is_dot) continue;
        // The second operand of the harmonic series is drawn from `positive`.
        const Distribution of_b = data.kind == SumData::Kind::harmonic ? Distribution::positive : data.distribution;
        out.y.push_back(drawn_term(format, of_b, Operand::b, seed, i));
    }
    return out;
}

ProductUnderflows product_underflows(const Format& format, const SumVectors& vectors) {
    ProductUnderflows count;
    // The last digit of a product of two numbers with p digits and exponents ex and ey has a weight of at least 2^(ex +
    // ey - 2p + 2).
    const int least = format.emin() - format.precision + 1;
    for (std::size_t i = 0; i < vectors.y.size(); ++i) {
        const double x = vectors.x[i], y = vectors.y[i];
        if (x == 0 || y == 0) continue;
        const int exponents = std::ilogb(x) + std::ilogb(y);
        if (exponents - 2 * format.precision + 2 >= least) continue;
        if (format.precision <= 26) {  // the product is exact
            const double places = std::ldexp(x * y, -least);
            if (places == std::trunc(places)) continue;
        }
        ++count.fine;
        count.below += exponents < format.emin() ? 1 : 0;
    }
    return count;
}

}  // namespace macheps::study
