// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/ieee.hpp"
#include "tests/machine/steps.hpp"

#include <algorithm>
#include <climits>

namespace macheps::machine_oracle {
namespace {

/// A term of a sum before it is aligned to the common unit.
struct Term {
    Exact value;
    int exponent;  ///< exponent for the alignment, not normalised
    bool is_zero;  ///< the alignment uses Instruction::zero_exponent instead
};

/// Returns the exponent of an operand. With the mutation zero_reads_m126, a zero has the exponent -126.
int read_exponent(const Number& x, Mutation mutation) {
    return mutation == Mutation::zero_reads_m126 && x.is_zero() ? -126 : x.exponent;
}

Term c_term(const Step& step, Mutation mutation) {
    return {step.c.value, read_exponent(step.c, mutation), step.c.is_zero()};
}

/// Cuts each term at 2^(largest exponent - F), adds the terms exactly, and returns the code of the rounded sum.
std::uint64_t aligned_sum(const Instruction& in, const std::vector<Term>& products, const Term& c, Mutation mutation) {
    const bool zeros_count = mutation == Mutation::zero_reads_emin || mutation == Mutation::zero_reads_m126;
    const bool c_last = mutation == Mutation::c_last;
    int top = zeros_count ? INT_MIN : in.zero_exponent;
    for (const Term& t : products)
        if (!t.is_zero || zeros_count) {
            const bool normalise = mutation == Mutation::product_renormalised && t.value.m != 0;
            top = std::max(top, normalise ? leading_exponent(t.value) : t.exponent);
        }
    if (!c_last && (!c.is_zero || zeros_count)) top = std::max(top, c.exponent);
    const int unit = top - in.fraction_bits;

    Exact total{0, mutation == Mutation::sticky_bit ? unit - 1 : unit};
    const auto add = [&](const Exact& value) {
        if (mutation == Mutation::floor_terms) {
            total.m += floored(value, unit);
        } else if (mutation == Mutation::sticky_bit) {
            const Integer kept = cut(value, unit);
            const bool lost = unit > value.q && Integer(kept << (unit - value.q)) != value.m;
            total.m += Integer(kept * 2) + (lost ? (value.m < 0 ? -1 : 1) : 0);
        } else {
            total.m += cut(value, unit);
        }
    };
    for (const Term& t : products) add(t.value);
    if (!c_last) add(c.value);
    std::uint64_t d = rounded(total, in.d, in.rounding, in.precision);
    if (c_last) {
        const Number dot = decode(in.d, d);
        if (dot.kind == Kind::finite) d = rounded(sum(dot.value, c.value), in.d, in.rounding, in.precision);
    }
    const std::uint64_t minus_zero = std::uint64_t{1} << (in.d.bits - 1);
    return mutation != Mutation::underflow_minus_zero && d == minus_zero ? 0 : d;  // +0, as in traces of an H100
}

}  // namespace

std::uint64_t nan_code(const Instruction& in) {
    if (in.canonical_nan) return (std::uint64_t{1} << (in.d.bits - 1)) - 1;
    return infinity(in.d, false) | std::uint64_t{1} << (in.d.precision - 2);
}

std::optional<std::uint64_t> special_result(const Instruction& in, const Step& step, bool great_products_are_infinite) {
    bool nan = step.c.kind == Kind::nan, infinities[2] = {false, false};
    if (step.c.kind == Kind::infinite) infinities[step.c.negative] = true;
    for (const auto* scales : {&step.sa, &step.sb})
        for (const Number& s : *scales) nan = nan || s.kind == Kind::nan;
    for (std::size_t k = 0; k < step.a.size(); ++k) {
        const Number &a = step.a[k], &b = step.b[k];
        if (a.kind == Kind::nan || b.kind == Kind::nan) nan = true;
        if (a.kind == Kind::infinite || b.kind == Kind::infinite) {
            if (a.is_zero() || b.is_zero()) nan = true;
            infinities[a.negative != b.negative] = true;
        } else if (great_products_are_infinite && a.kind == Kind::finite && b.kind == Kind::finite) {
            const Exact p = product(a.value, b.value);
            if (p.m != 0 && leading_exponent(p) >= 128) infinities[p.m < 0] = true;
        }
    }
    if (nan || (infinities[0] && infinities[1])) return nan_code(in);
    if (infinities[0] || infinities[1]) return infinity(in.d, infinities[1]);
    return std::nullopt;
}

std::uint64_t fused_step(const Instruction& in, const Step& step, Mutation mutation) {
    if (const auto special = special_result(in, step, false)) return *special;
    std::vector<Term> products;
    products.reserve(step.a.size());
    for (std::size_t k = 0; k < step.a.size(); ++k) {
        const Number &a = step.a[k], &b = step.b[k];
        Term t{product(a.value, b.value), read_exponent(a, mutation) + read_exponent(b, mutation), false};
        t.is_zero = t.value.m == 0;
        if (!step.sa.empty()) {
            t.value = product(t.value, product(step.sa[k].value, step.sb[k].value));
            t.exponent += step.sa[k].exponent + step.sb[k].exponent;
        }
        products.push_back(t);
    }
    return aligned_sum(in, products, c_term(step, mutation), mutation);
}

std::uint64_t grouped_step(const Instruction& in, const Step& step, Mutation mutation) {
    if (const auto special = special_result(in, step, false)) return *special;
    constexpr std::size_t group_size = 16;
    std::vector<Term> groups;
    for (std::size_t first = 0; first < step.a.size(); first += group_size) {
        Exact dot;
        bool all_zero = true;
        for (std::size_t k = first; k < first + group_size; ++k) {
            const Exact p = product(step.a[k].value, step.b[k].value);
            all_zero = all_zero && p.m == 0;
            dot = sum(dot, p);
        }
        const Number &sa = step.sa[first], &sb = step.sb[first];
        groups.push_back({product(dot, product(sa.value, sb.value)), sa.exponent + sb.exponent,
                          all_zero || (mutation != Mutation::zero_scale_counts && (sa.is_zero() || sb.is_zero()))});
    }
    return aligned_sum(in, groups, c_term(step, mutation), mutation);
}

std::uint64_t pairwise_fp32_step(const Instruction& in, const Step& step) {
    const Type& f32 = find_type("f32");
    const auto round = [&](const Real& x) {
        return real(decode(f32, ieee_code(x, f32, Rounding::nearest_even, f32.precision, 0x7fffffff)));
    };
    std::vector<Real> sums;
    for (std::size_t k = 0; k < step.a.size(); ++k) {
        Real p = ieee_product(real(step.a[k]), real(step.b[k]));
        if (!step.sa.empty()) p = ieee_product(p, ieee_product(real(step.sa[k]), real(step.sb[k])));
        sums.push_back(round(p));
    }
    for (; sums.size() > 1; sums.resize(sums.size() / 2))
        for (std::size_t i = 0; i < sums.size() / 2; ++i) sums[i] = round(ieee_sum(sums[2 * i], sums[2 * i + 1]));
    const Real d = ieee_sum(sums[0], real(step.c));
    return ieee_code(d, in.d, in.rounding, in.precision, nan_code(in));
}

std::uint64_t integer_step(const Instruction& in, const Step& step) {
    Integer total = step.c.value.m;
    for (std::size_t k = 0; k < step.a.size(); ++k) total += product(step.a[k].value, step.b[k].value).m;
    const Integer greatest = (Integer(1) << 31) - 1, least = -greatest - 1, modulus = Integer(1) << 32;
    if (in.saturates) total = total > greatest ? greatest : total < least ? least : total;
    total %= modulus;
    if (total < 0) total += modulus;
    return static_cast<std::uint64_t>(total);
}

}  // namespace macheps::machine_oracle
