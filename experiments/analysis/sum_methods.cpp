// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/sum_methods.hpp"

#include "core/error.hpp"
#include "core/nearest_name.hpp"
#include "emulation/machine/exact_sum.hpp"
#include "emulation/reduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace macheps::analysis {

namespace {

using Terms = std::vector<double>;

struct Pair {
    double sum, error;
};

Pair two_sum(SumNumbers& in, double a, double b) {
    const double s = in.add(a, b), z = in.sub(s, a), back = in.sub(s, z), left = in.sub(a, back);
    return {s, in.add(left, in.sub(b, z))};
}

Pair two_product(SumNumbers& in, double a, double b) {
    const double p = in.mul(a, b);
    return {p, in.fma(a, b, -p)};
}

double running(SumNumbers& in, std::span<const double> x) {
    double s = 0;
    for (const double each : x) s = in.add(s, each);
    return s;
}

double recursive_sum(SumNumbers& in, Terms x, std::int64_t) { return running(in, x); }

double ascending_sum(SumNumbers& in, Terms x, std::int64_t) {
    std::stable_sort(x.begin(), x.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    return running(in, x);
}

double descending_sum(SumNumbers& in, Terms x, std::int64_t) {
    std::stable_sort(x.begin(), x.end(), [](double a, double b) { return std::fabs(a) > std::fabs(b); });
    return running(in, x);
}

/// n terms are those up to the largest power of two below n, plus the rest.
double halved(SumNumbers& in, std::span<const double> x) {
    if (x.size() == 1) return x.front();
    const std::size_t half = std::bit_floor(x.size() - 1);
    const double left = halved(in, x.first(half));
    return in.add(left, halved(in, x.subspan(half)));
}

double pairwise_sum(SumNumbers& in, Terms x, std::int64_t) { return x.empty() ? 0 : halved(in, x); }

double in_pieces(SumNumbers& in, std::span<const double> x, std::size_t length) {
    double s = 0;
    for (std::size_t first = 0; first < x.size(); first += length) {
        const double piece = running(in, x.subspan(first, std::min(length, x.size() - first)));
        s = in.add(s, piece);
    }
    return s;
}

double blocked_sum(SumNumbers& in, Terms x, std::int64_t block) { return in_pieces(in, x, static_cast<std::size_t>(block)); }

double split_sum(SumNumbers& in, Terms x, std::int64_t slices) {
    const auto count = static_cast<std::size_t>(slices);
    return in_pieces(in, x, std::max<std::size_t>(1, (x.size() + count - 1) / count));
}

/// The order of emulation/reduce.hpp, which is also a warp's: 32 lanes, folded by halves, on chunks of 1024.
double in_lanes(SumNumbers& in, std::span<const double> x) {
    double lane[lanes] = {};
    std::size_t width = 1;
    while ((x.size() + width - 1) / width > chunk) width *= chunk;
    for (std::size_t i = 0; i * width < x.size(); ++i) {
        const double term =
            width == 1 ? x[i] : in_lanes(in, x.subspan(i * width, std::min(width, x.size() - i * width)));
        lane[i % lanes] = in.add(lane[i % lanes], term);
    }
    for (int half = lanes / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) lane[l] = in.add(lane[l], lane[l + half]);
    }
    return lane[0];
}

double lanes_sum(SumNumbers& in, Terms x, std::int64_t) { return in_lanes(in, x); }

double kahan_sum(SumNumbers& in, Terms x, std::int64_t) {
    double s = 0, c = 0;
    for (const double each : x) {
        const double y = in.sub(each, c), t = in.add(s, y);
        c = in.sub(in.sub(t, s), y);
        s = t;
    }
    return s;
}

double neumaier_sum(SumNumbers& in, Terms x, std::int64_t) {
    double s = 0, c = 0;
    for (const double each : x) {
        const double t = in.add(s, each);
        const bool is_larger = std::fabs(s) >= std::fabs(each);
        const double rest = is_larger ? in.add(in.sub(s, t), each) : in.add(in.sub(each, t), s);
        c = in.add(c, rest);
        s = t;
    }
    return in.add(s, c);
}

double compensated_sum(SumNumbers& in, Terms x, std::int64_t) {
    double s = 0, c = 0;
    for (const double each : x) {
        const Pair pair = two_sum(in, s, each);
        s = pair.sum;
        c = in.add(c, pair.error);
    }
    return in.add(s, c);
}

double distilled_sum(SumNumbers& in, Terms x, std::int64_t passes) {
    if (x.empty()) return 0;
    for (std::int64_t pass = 1; pass < passes; ++pass) {
        for (std::size_t i = 1; i < x.size(); ++i) {
            const Pair pair = two_sum(in, x[i], x[i - 1]);
            x[i] = pair.sum;
            x[i - 1] = pair.error;
        }
    }
    const double rest = running(in, std::span(x).first(x.size() - 1));
    return in.add(x.back(), rest);
}

double exact_sum(SumNumbers& in, Terms x, std::int64_t) {
    ExactSum sum;
    double special = 0;
    for (const double each : x) {
        if (!std::isfinite(each)) {
            special += each;
            continue;
        }
        const Unpacked u = unpack(each);
        const int zeros = u.significand == 0 ? 0 : std::countr_zero(u.significand);
        if (u.significand != 0) sum.add(u.negative, u.significand >> zeros, u.exponent + zeros);
    }
    return special == 0 ? in.rounding()(sum.value()) : in.rounding()(special);
}

double chain_dot(SumNumbers& in, std::span<const double> x, std::span<const double> y) {
    double s = 0;
    for (std::size_t i = 0; i < x.size(); ++i) s = in.fma(x[i], y[i], s);
    return s;
}

double muladd_dot(SumNumbers& in, std::span<const double> x, std::span<const double> y) {
    double s = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double p = in.mul(x[i], y[i]);
        s = in.add(s, p);
    }
    return s;
}

/// Ogita, Rump, Oishi 2005: both errors of every step are added apart.
double compensated_dot(SumNumbers& in, std::span<const double> x, std::span<const double> y) {
    if (x.empty()) return 0;
    auto [p, c] = two_product(in, x[0], y[0]);
    for (std::size_t i = 1; i < x.size(); ++i) {
        const Pair product = two_product(in, x[i], y[i]), sum = two_sum(in, p, product.sum);
        p = sum.sum;
        c = in.add(c, in.add(sum.error, product.error));
    }
    return in.add(p, c);
}

std::int64_t pieces(std::int64_t n, std::int64_t length) { return (n + length - 1) / length; }
std::int64_t chain_height(std::int64_t n, std::int64_t) { return std::max<std::int64_t>(n - 1, 1); }
std::int64_t pairwise_height(std::int64_t n, std::int64_t) {
    return std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n) - 1)));
}
std::int64_t blocked_height(std::int64_t n, std::int64_t block) {
    return std::max<std::int64_t>(std::min(block, n) - 1 + pieces(n, block) - 1, 1);
}
std::int64_t split_height(std::int64_t n, std::int64_t slices) { return blocked_height(n, pieces(n, slices)); }
std::int64_t lanes_height(std::int64_t n, std::int64_t) { return n / 32 + 4; }
std::int64_t one_rounding(std::int64_t, std::int64_t) { return 1; }
std::int64_t dot_height(std::int64_t n, std::int64_t) { return n; }
std::int64_t no_height(std::int64_t, std::int64_t) { return 0; }

constexpr SumMethodRow methods[] = {
    {"recursive", "one after another", 0, recursive_sum, nullptr, chain_height},
    {"ascending", "one after another, the smallest magnitudes first", 0, ascending_sum, nullptr, chain_height},
    {"descending", "one after another, the largest magnitudes first", 0, descending_sum, nullptr, chain_height},
    {"pairwise", "by halves, at the largest power of two below n", 0, pairwise_sum, nullptr, pairwise_height},
    {"blocked", "blocks of B terms, then their sums", 128, blocked_sum, nullptr, blocked_height},
    {"lanes32", "32 lanes, folded by halves, on chunks of 1024: a warp", 0, lanes_sum, nullptr, lanes_height},
    {"splitk", "S slices, then their sums", 8, split_sum, nullptr, split_height},
    {"kahan", "each addition's error goes into the next term", 0, kahan_sum, nullptr, no_height},
    {"neumaier", "the errors are added apart, and at the end", 0, neumaier_sum, nullptr, no_height},
    {"sum2", "the same with error-free transformations", 0, compensated_sum, nullptr, no_height},
    {"sumK", "K-1 passes of them over the vector", 3, distilled_sum, nullptr, no_height},
    {"exact", "the exact sum, rounded once", 0, exact_sum, nullptr, one_rounding},
    {"chain", "of products: one fma after another", 0, nullptr, chain_dot, dot_height},
    {"muladd", "of products: each rounded, then added", 0, nullptr, muladd_dot, dot_height},
    {"dot2", "of products: both errors of each step are added apart", 0, nullptr, compensated_dot, no_height},
};

}  // namespace

std::span<const SumMethodRow> sum_methods() { return methods; }

SumMethod parse_sum_method(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    std::vector<std::string_view> names;
    for (const SumMethodRow& row : methods) {
        names.push_back(row.name);
        if (row.name != name) continue;
        SumMethod method{.text = std::string(text), .row = &row, .number = row.usual};
        if (colon == std::string_view::npos) return method;
        const std::string_view digits = text.substr(colon + 1);
        const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), method.number);
        const bool is_number = error == std::errc{} && last == digits.data() + digits.size() && method.number >= 1;
        if (row.usual > 0 && is_number) return method;
        throw Error({.what = row.usual > 0 ? fmt::format("'{}' is no number from 1", digits) : fmt::format("{} takes no number", name),
                     .where = fmt::format("--method {}", text),
                     .fix = std::string(row.words),
                     .exit = Exit::usage});
    }
    const std::string near = nearest_name(std::string(name), names);
    throw Error({.what = fmt::format("unknown method '{}'", name),
                 .where = "--method",
                 .fix = near.empty() ? fmt::format("one of {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near),
                 .exit = Exit::usage});
}

double sum_by(const SumMethod& method, SumNumbers& in, std::span<const double> x, std::span<const double> y) {
    if (method.row->dot != nullptr) return method.row->dot(in, x, y);
    if (y.empty()) return method.row->sum(in, {x.begin(), x.end()}, method.number);
    std::vector<double> products;
    for (std::size_t i = 0; i < x.size(); ++i) products.push_back(method.row->sum == exact_sum ? x[i] * y[i] : in.mul(x[i], y[i]));
    return method.row->sum(in, std::move(products), method.number);
}

}  // namespace macheps::analysis
