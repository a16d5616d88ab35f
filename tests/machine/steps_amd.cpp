// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/ieee.hpp"
#include "tests/machine/steps.hpp"

#include <algorithm>
#include <climits>

namespace macheps::machine_oracle {
namespace {

/// Sum of the products 0, 2, 4 ..., of the products 1, 3, 5 ..., or of all products. Each product is cut towards zero
/// at the bit that lies 24 places below the largest exponent of the nonzero products in the sum.
struct Part {
    Exact sum;
    int top = INT_MIN;  ///< largest exponent, or INT_MIN if all products are zero
};

Part cut_products(const Instruction& in, const Step& step, std::size_t first, std::size_t stride, Mutation mutation) {
    const bool zeros_count = mutation == Mutation::zero_reads_emin || mutation == Mutation::zero_reads_m126;
    const auto exponent_of = [mutation](const Number& x) {
        return mutation == Mutation::zero_reads_m126 && x.is_zero() ? -126 : x.exponent;
    };
    Part part;
    for (std::size_t k = first; k < step.a.size(); k += stride) {
        const Exact p = product(step.a[k].value, step.b[k].value);
        if (p.m == 0 && !zeros_count) continue;
        const bool normalise = mutation == Mutation::product_renormalised && p.m != 0;
        part.top =
            std::max(part.top, normalise ? leading_exponent(p) : exponent_of(step.a[k]) + exponent_of(step.b[k]));
    }
    if (part.top == INT_MIN) return part;
    const int unit = part.top - in.fraction_bits;
    part.sum.q = unit;
    for (std::size_t k = first; k < step.a.size(); k += stride) {
        const Exact p = product(step.a[k].value, step.b[k].value);
        part.sum.m += mutation == Mutation::floor_terms ? floored(p, unit) : cut(p, unit);
    }
    return part;
}

}  // namespace

std::uint64_t truncated_step(const Instruction& in, const Step& step, int parities, Mutation mutation) {
    if (const auto special = special_result(in, step, mutation != Mutation::products_stay_finite)) return *special;
    const auto down = [mutation](const Exact& x, int q) {
        return Exact{mutation == Mutation::sum_truncated ? cut(x, q) : floored(x, q), q};
    };
    Part dot;
    if (parities == 1 || mutation == Mutation::parities_joined) {
        dot = cut_products(in, step, 0, 1, mutation);
    } else {
        const Part even = cut_products(in, step, 0, 2, mutation), odd = cut_products(in, step, 1, 2, mutation);
        dot.top = std::max(even.top, odd.top);
        if (dot.top != INT_MIN) {
            const int unit = dot.top - in.fraction_bits;
            dot.sum = sum(down(even.sum, unit), down(odd.sum, unit));
        }
    }
    const int c_exponent = step.c.is_zero() ? in.zero_exponent : step.c.exponent;
    const int top = std::max(dot.top, c_exponent);
    const bool drops_c = parities == 2 && mutation != Mutation::c_never_dropped && c_exponent < top - 25;
    Exact total = down(dot.sum, top - 32);
    if (!drops_c) total = sum(total, down(step.c.value, top - 24));
    if (total.m == 0) return 0;
    if (mutation != Mutation::no_31_bit_floor) {
        const int quantum = std::max(leading_exponent(total), in.d.emin()) - 31;
        total = {floored(total, quantum), quantum};
    }
    return rounded(total, in.d, in.rounding, in.precision);
}

std::uint64_t exact_step(const Instruction& in, const Step& step, Mutation mutation) {
    if (const auto special = special_result(in, step, false)) return *special;
    Exact total;
    for (std::size_t k = 0; k < step.a.size(); ++k) total = sum(total, product(step.a[k].value, step.b[k].value));
    if (mutation == Mutation::c_last) {
        const Number dot = decode(in.d, rounded(total, in.d, in.rounding, in.precision));
        if (dot.kind == Kind::infinite) return infinity(in.d, dot.negative);
        total = dot.value;
    }
    return rounded(sum(total, step.c.value), in.d, in.rounding, in.precision);
}

std::uint64_t pairwise_step(const Instruction& in, const Step& step, Mutation mutation) {
    const bool flushes = mutation != Mutation::no_flush;
    const auto read = [flushes](const Number& x, const Type& type) {
        return flushes && x.is_subnormal(type) ? Real{} : real(x);
    };
    // Subnormal results become zeros that keep the sign.
    const auto round = [&](const Real& x) {
        const Number y = decode(in.d, ieee_code(x, in.d, in.rounding, in.precision, nan_code(in)));
        return flushes && y.is_subnormal(in.d) ? Real{Kind::finite, y.negative, {}} : real(y);
    };
    std::vector<Real> sums;
    for (std::size_t k = 0; k < step.a.size(); ++k) {
        const Real p = ieee_product(read(step.a[k], in.a), read(step.b[k], in.b));
        sums.push_back(mutation == Mutation::products_fused ? p : round(p));
    }
    const Real c = read(step.c, *step.c_type);
    Real d;
    if (mutation == Mutation::c_first) {
        d = c;
        for (const Real& p : sums) d = round(ieee_sum(d, p));
    } else {
        for (; sums.size() > 1; sums.resize(sums.size() / 2))
            for (std::size_t i = 0; i < sums.size() / 2; ++i) sums[i] = round(ieee_sum(sums[2 * i], sums[2 * i + 1]));
        d = round(ieee_sum(c, sums[0]));
    }
    return ieee_code(d, in.d, in.rounding, in.precision, nan_code(in));
}

std::uint64_t fma_step(const Instruction& in, const Step& step, Mutation mutation) {
    const auto round = [&](const Real& x) {
        return real(decode(in.d, ieee_code(x, in.d, in.rounding, in.precision, nan_code(in))));
    };
    Real d = real(step.c);
    for (std::size_t k = 0; k < step.a.size(); ++k) {
        const Real p = ieee_product(real(step.a[k]), real(step.b[k]));
        d = round(ieee_sum(mutation == Mutation::products_rounded ? round(p) : p, d));
    }
    return ieee_code(d, in.d, in.rounding, in.precision, nan_code(in));
}

}  // namespace macheps::machine_oracle
