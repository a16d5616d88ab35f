// SPDX-License-Identifier: Apache-2.0
#include "emulation/matmul/reveal.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps {

namespace {

int ceil_log2(int n) {
    int bits = 0;
    while ((std::int64_t{1} << bits) < n) ++bits;
    return bits;
}

/// Range of exponents e for which 2^e is a number of the format or, if `normal` is true, a normal number.
struct ExponentSpan {
    int least, most;

    ExponentSpan(const Format& f, bool normal)
        : least(normal ? f.emin() : f.emin() - f.fraction_bits()),
          most(std::ilogb(decode(f, f.max_finite_code() << f.padding))) {}
    bool contains(int e) const { return e >= least && e <= most; }
};

/// Splits the exponent e of a product into the exponents of its factors. The factors are powers of two in the ranges of
/// a and of b.
std::pair<int, int> split(int e, const ExponentSpan& a, const ExponentSpan& b) {
    const int half = std::clamp(e >= 0 ? (e + 1) / 2 : e / 2, a.least, a.most);
    const int other = std::clamp(e - half, b.least, b.most);
    return {e - other, other};
}

float power(int e) { return static_cast<float>(std::ldexp(1.0, e)); }

}  // namespace

Error no_tree(std::string what) {
    return Error({.what = std::move(what),
                  .where = "reveal",
                  .fix = "check the sum: it has no tree if it is exact, if its accumulator is too wide for the masks, "
                         "or if its order varies",
                  .exit = Exit::check_failed});
}

RevealLimits reveal_limits(const MatmulRule& rule) {
    const Machine& machine = *rule.machine;
    const bool is_joined = rule.promotion != Promotion::none || rule.slices > 1;
    RevealLimits limits;
    limits.flushes = machine.sum.model == SumModel::flushed_pairs || machine.sum.flush_operands;
    if (machine.result == fp16) {
        limits.precision = fp16.precision;
        limits.largest_exponent = 15;
        limits.min_exponent = -24;
        limits.vanishing_bits = std::max(machine.sum.fraction_bits, 12);
    } else if (machine.result == bf16) {
        limits.precision = bf16.precision;
        limits.vanishing_bits = 9;
    } else if (machine.sum.delivery == Delivery::e8m13_toward_zero && !is_joined) {
        limits.precision = 14;
        limits.vanishing_bits = 14;
    }
    return limits;
}

void RevealOperands::fill(int terms, TermPair pair, float* a, float* b) const {
    std::fill_n(a, terms, unit_a);
    std::fill_n(b, terms, unit_b);
    a[pair.first] = mask_a;
    a[pair.second] = -mask_a;
    b[pair.first] = b[pair.second] = mask_b;
}

int RevealOperands::size_of(int terms, TermPair pair, double result) const {
    const double left = result / unit();
    if (!(left >= 0 && left <= terms - 2) || left != std::floor(left)) {
        throw no_tree(fmt::format(
            "with masks at terms {} and {}, the result is {} units of {}, but it must be a whole number of units "
            "from 0 to {}",
            pair.first, pair.second, left, unit(), terms - 2));
    }
    return terms - static_cast<int>(left);
}

RevealOperands reveal_operands(const Format& a, const Format& b, int terms, const RevealLimits& limits) {
    const ExponentSpan in_a(a, limits.flushes), in_b(b, limits.flushes);
    const auto gap = [&](int mask) {  // exponent of a unit so small that even `terms` units vanish when added to 2^mask
        return mask - limits.vanishing_bits - ceil_log2(terms) - 1;
    };
    const auto vanishes = [&](int mask, int unit) {
        return std::ldexp(double(terms - 2), unit) < std::ldexp(1.0, mask - limits.vanishing_bits);
    };
    const bool counts_fit = terms <= 1 << limits.precision;
    const int alone = std::min(in_a.most, limits.largest_exponent);
    const int alone_unit = std::max({gap(alone), in_a.least, limits.min_exponent});
    if (counts_fit && in_b.contains(0) && vanishes(alone, alone_unit)) {
        return {.mask_a = power(alone), .mask_b = 1, .unit_a = power(alone_unit), .unit_b = 1};
    }
    const int mask = std::min(in_a.most + in_b.most, limits.largest_exponent);
    const int unit = std::max({gap(mask), in_a.least + in_b.least, limits.min_exponent});
    if (!counts_fit || !vanishes(mask, unit)) {
        int most = 2;
        for (int n = 3; n <= 1 << limits.precision; ++n) {
            if (!(std::ldexp(double(n - 2), std::max(in_a.least + in_b.least, limits.min_exponent)) <
                  std::ldexp(1.0, mask - limits.vanishing_bits)))
                break;
            most = n;
        }
        const std::string formats = fmt::format("{} times {}", format_name(a), format_name(b));
        throw Error({.what = most < 4 ? fmt::format("the range of {} is too small for masks and units", formats)
                                      : fmt::format("{} terms are too many for {} in this sum", terms, formats),
                     .where = "reveal",
                     .fix = most < 4 ? "use a wider format" : fmt::format("use at most {} terms", most),
                     .exit = Exit::usage});
    }
    const auto [mask_a, mask_b] = split(mask, in_a, in_b);
    const auto [unit_a, unit_b] = split(unit, in_a, in_b);
    return {power(mask_a), power(mask_b), power(unit_a), power(unit_b)};
}

PairSizes matmul_pair_sizes(Backend& backend, const MatmulRule& rule, const Format& a, const Format& b, int terms) {
    const RevealOperands operands = reveal_operands(a, b, terms, reveal_limits(rule));
    return [&backend, rule, a, b, terms, operands](std::span<const TermPair> pairs) {
        std::vector<int> sizes;
        const std::size_t k = static_cast<std::size_t>(terms), most = std::max<std::size_t>((1u << 22) / k, 1);
        for (std::size_t first = 0; first < pairs.size(); first += most) {
            const auto some = pairs.subspan(first, std::min(most, pairs.size() - first));
            std::vector<float> left(some.size() * k), right(left.size()), results(some.size());
            for (std::size_t p = 0; p < some.size(); ++p) operands.fill(terms, some[p], &left[p * k], &right[p * k]);
            const auto count = static_cast<std::int64_t>(some.size());
            Tensor x = backend.empty({count, terms}), y = backend.empty({count, terms}), out = backend.empty({count});
            backend.upload(left, x.view());
            backend.upload(right, y.view());
            Matmul args;
            args.m = args.n = 1;
            args.k = terms;
            args.batch_outer = count;
            args.a = {.data = x.data(), .ld = terms, .stride_outer = terms, .format = a};
            args.b = {.data = y.data(), .ld = terms, .transposed = true, .stride_outer = terms, .format = b};
            args.out = out.data();
            args.ld_out = args.stride_out_outer = 1;
            args.rule = rule;
            backend.matmul(args);
            backend.download(out.view(), results);
            for (std::size_t p = 0; p < some.size(); ++p) sizes.push_back(operands.size_of(terms, some[p], results[p]));
        }
        return sizes;
    };
}

}  // namespace macheps
