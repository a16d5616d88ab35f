// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/sum_order.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/overflow.hpp"
#include "core/rounding_names.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/machine/exact_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace macheps {

namespace {

double chain(Rounding& round, std::span<const double> products) {
    double sum = 0;
    for (const double product : products) sum = round.sum(sum, product);
    return sum;
}

/// Sums n terms as the first h plus the rest, where h is the largest power of two below n.
double halves(Rounding& round, std::span<const double> terms) {
    if (terms.size() == 1) return terms.front();
    const std::size_t half = std::bit_floor(terms.size() - 1);
    const double left = halves(round, terms.first(half));
    return round.sum(left, halves(round, terms.subspan(half)));
}

double pairwise(Rounding& round, std::span<const double> products) {
    std::vector<double> terms;
    for (const double product : products) terms.push_back(round(product));
    return terms.empty() ? 0 : halves(round, terms);
}

double kahan(Rounding& round, std::span<const double> products) {
    double sum = 0, error = 0;
    for (const double product : products) {
        const double y = round.sum(round(product), -error), t = round.sum(sum, y);
        error = round.sum(round.sum(t, -sum), -y);
        sum = t;
    }
    return sum;
}

double exact(Rounding& round, std::span<const double> products) {
    ExactSum sum;
    double special = 0;
    for (const double product : products) {
        if (!std::isfinite(product)) {
            special += product;
            continue;
        }
        const Unpacked u = unpack(product);
        const int zeros =
            u.significand == 0 ? 0 : std::countr_zero(u.significand);  // removes the trailing zeros of the product
        sum.add(u.negative, u.significand >> zeros, u.significand == 0 ? 0 : u.exponent + zeros);
    }
    return special == 0 ? round(sum.value()) : round(special);
}

double log2_up(double k) { return std::bit_width(static_cast<std::uint64_t>(k) - 1); }

bool is_nearest(Round round) { return round == Round::nearest_even || round == Round::nearest_away; }

constexpr double unbounded = 0x1p500;  // used instead of infinity, because its product with zero is not NaN

/// Returns the error bound of a chain of k roundings, relative to the sum of the magnitudes of the terms. For rounding
/// to nearest, the bound is k u (Jeannerod and Rump). It is also k u for rounding toward zero, because a partial sum
/// then never exceeds the sum of the magnitudes. In the other modes, the sum can grow with each rounding, and the bound
/// is (1 + u)^k - 1. Stochastic rounding also returns k u: code that uses ErrorKind::unbiased accounts for the growth.
ModelError chained(double k, double unit, Round round) {
    if (is_nearest(round) || round == Round::toward_zero || round == Round::stochastic) return {k, unit};
    return {k, std::min(std::expm1(k * std::log1p(unit)), unbounded) / k};
}
std::vector<ModelError> chain_errors(double k, double unit, Round round) { return {chained(k, unit, round)}; }
std::vector<ModelError> pairwise_errors(double k, double unit, Round) {
    const double depth = 1 + log2_up(k);
    return {{depth, unit * (1 + depth * unit)}};
}
/// Returns the usual bound of Kahan's sum if k u is small and the rounding is to nearest, which makes corrections
/// exact. Otherwise no bound is proven, and the returned bound is practically infinite.
std::vector<ModelError> kahan_errors(double k, double unit, Round round) {
    if (is_nearest(round) && k * unit <= 0.125) return {{4, unit}, {1, (4 * k + 12) * unit * unit}};
    return {{k, unbounded / k}};
}
std::vector<ModelError> one_error(double, double unit, Round) { return {{1, unit}}; }

constexpr SumOrderRow order_rows[] = {
    {"chain", "one fma per term, k ascending; each is rounded once", chain, 1, chain_errors},
    {"pairwise", "products are rounded, then added in a tree split at the largest power of two below n", pairwise, 2,
     pairwise_errors},
    {"kahan", "products are rounded, then added with Kahan's compensated sum, k ascending", kahan, 5, kahan_errors},
    {"exact", "the exact sum of the exact products, rounded once", exact, 1, one_error},
};

Round round_of(std::string_view name, std::string_view text) {
    std::vector<std::string_view> names;
    for (const RoundName& row : round_names) {
        if (row.name == name || row.acronym == name) return row.value;
        names.push_back(row.name);
    }
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("unknown rounding mode '{}'", name),
                 .where = std::string(text),
                 .fix = near.empty() ? "use a mode such as in chain:bf16:stochastic or chain:bf16:toward_zero"
                                     : fmt::format("did you mean {}?", near),
                 .exit = Exit::usage});
}

}  // namespace

double Rounding::operator()(double x) { return (*this)(unpack(x)); }

double Rounding::operator()(const Unpacked& x) {
    const RandomBits random = next();
    const std::uint64_t code = detail::encode_unpacked(format_, x, mode_, Overflow::nonsaturate, random);
    const bool is_largest = (code & ~format_.sign_bit()) == format_.max_finite_code();
    has_saturated_ = has_saturated_ || (is_largest && overflows(format_, x, mode_, random));
    return decode64(format_, code << format_.padding);
}

double Rounding::sum(double x, double y) {
    // Knuth's TwoSum: x + y = sum + rest, exactly.
    const double sum = x + y, of_y = sum - x, of_x = sum - of_y, rest = (x - of_x) + (y - of_y);
    if (rest == 0 || !std::isfinite(sum)) {
        const bool cancels = sum == 0 && std::signbit(x) != std::signbit(y);
        return (*this)(cancels && mode_ == Round::down ? -0.0 : sum);
    }
    // Appends ten bits of the rest and a sticky bit to the 53 bits of the sum. Rounding these 64 bits gives the same
    // result as rounding the exact sum.
    Unpacked u = unpack(sum);
    const double below = std::ldexp(u.negative ? -rest : rest, 10 - u.exponent), digits = std::floor(below);
    const auto low = static_cast<std::int64_t>(digits) * 2 + (digits == below ? 0 : 1);
    u.significand = (u.significand << 11) + static_cast<std::uint64_t>(low);
    u.exponent -= 11;
    return (*this)(u);
}

std::span<const SumOrderRow> sum_orders() { return order_rows; }

double SumOrder::sum(std::span<const double> products, RngKey stream, std::uint64_t output, bool* saturates) const {
    const std::uint64_t words = static_cast<std::uint64_t>(row->roundings) * (products.size() + 1);
    Rounding rounding(format, round, stream, output * words);
    const double sum = row->sum(rounding, products);
    if (saturates != nullptr) *saturates = rounding.has_saturated() && std::isfinite(sum);
    return sum;
}

ModelErrors SumOrder::errors(std::int64_t k) const {
    const bool nearest = is_nearest(round);
    const double unit = format.unit_roundoff() * (nearest ? 1 : 2),
                 least = Format::power_of_two(format.emin() - format.fraction_bits());
    ModelErrors errors{.relative = row->errors(static_cast<double>(k), unit, round)};
    const ErrorKind kind = nearest                      ? ErrorKind::nearest
                           : round == Round::stochastic ? ErrorKind::unbiased
                           : round == Round::to_odd     ? ErrorKind::nearest
                                                        : ErrorKind::cut_sum;
    for (ModelError& each : errors.relative) each.kind = kind;
    // A sum of two numbers of the format is exact if it is subnormal. A subnormal product may be inexact.
    errors.underflow = static_cast<double>(k) * least * (nearest ? 0.5 : 1);
    return errors;
}

std::optional<SumOrder> parse_sum_order(std::string_view text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto row = std::find_if(std::begin(order_rows), std::end(order_rows),
                                  [&](const SumOrderRow& each) { return each.name == text.substr(0, colon); });
    if (row == std::end(order_rows)) return std::nullopt;
    const std::string_view rest = text.substr(colon + 1), format = rest.substr(0, rest.find(':'));
    SumOrder order{.row = &*row, .format = format_named(format, text, Exit::usage)};
    if (order.format == fp64 || order.format.encoding != Encoding::binary) {
        throw Error({.what = fmt::format("sums in {} are not supported", format_name(order.format)),
                     .where = std::string(text),
                     .fix = "use a floating-point format with a sign and at most 32 bits",
                     .exit = Exit::usage});
    }
    if (format.size() < rest.size()) order.round = round_of(rest.substr(format.size() + 1), text);
    return order;
}

}  // namespace macheps
