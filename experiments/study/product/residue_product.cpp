// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/residue_product.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "experiments/study/product/machine_product.hpp"

#include <fmt/format.h>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace macheps::study {

namespace {

using Integer = boost::multiprecision::int512_t;  // the product of 24 moduli is below 2^185
using Rounding = boost::multiprecision::cpp_bin_float_100;

Integer product_of(const std::vector<int>& moduli) {
    Integer product = 1;
    for (const int m : moduli) product *= m;
    return product;
}

/// Returns the residue of x modulo m that lies in [-m / 2, m / 2). Its magnitude is at most 128.
int residue(std::int64_t x, int m) {
    const auto r = static_cast<int>(x % m), up = (m + 1) / 2;
    return r >= up ? r - m : r < up - m ? r + m : r;
}

/// One operand, rounded to integers. Element (outer, p) is approximately q 2^(e - t), where q = integers[at(outer, p)]
/// and e = exponents[outer].
struct WholeOperand {
    std::vector<std::int64_t> integers{};
    std::vector<int> exponents{};

    template <class At>
    WholeOperand(std::int64_t outer, std::int64_t k, std::span<const double> x, int t, const At& at)
        : integers(x.size()), exponents(static_cast<std::size_t>(outer)) {
        for (std::int64_t i = 0; i < outer; ++i) {
            double most = 0;
            for (std::int64_t p = 0; p < k; ++p) most = std::max(most, std::fabs(x[at(i, p)]));
            int& exponent = exponents[static_cast<std::size_t>(i)];
            std::frexp(most, &exponent);
            for (std::int64_t p = 0; p < k; ++p) {
                integers[at(i, p)] = static_cast<std::int64_t>(std::nearbyint(std::ldexp(x[at(i, p)], t - exponent)));
            }
        }
    }

    std::vector<float> residues(int m) const {
        std::vector<float> r(integers.size());
        std::transform(integers.begin(), integers.end(), r.begin(),
                       [m](std::int64_t x) { return static_cast<float>(residue(x, m)); });
        return r;
    }
};

/// Returns the number that is 1 modulo m and 0 modulo each of the other moduli. `rest` is the product of the other
/// moduli.
Integer weight_of(const Integer& rest, int m) {
    const auto r = static_cast<int>(rest % m);
    int inverse = 1;
    while (r * inverse % m != 1) ++inverse;
    return rest * inverse;
}

}  // namespace

std::vector<int> coprime_moduli(int count) {
    std::vector<int> moduli;
    for (int m = 256; m > 1 && static_cast<int>(moduli.size()) < count; --m) {
        const bool is_coprime =
            std::all_of(moduli.begin(), moduli.end(), [m](int other) { return std::gcd(m, other) == 1; });
        if (is_coprime) moduli.push_back(m);
    }
    return moduli;
}

int residue_integer_bits(int moduli, std::int64_t k) {
    const Integer product = product_of(coprime_moduli(moduli));
    int t = 0;
    while (t < 53 && product > (Integer(std::max<std::int64_t>(k, 1)) << (2 * (t + 1) + 1))) ++t;
    return t;
}

bool has_exact_residues(const SpelledRule& machine, std::int64_t k) {
    if (is_integer_unit(*machine.rule.machine)) return k < 1 << (31 - 2 * residue_bits);
    // Sums of products of residues are exact if sums of products of 8-bit digits are exact, because residues and such
    // digits have magnitudes of at most 2^7.
    return exact_digit_bits(machine, k) >= residue_bits + 1;
}

NarrowProduct residue_product(Backend& backend, const ViaPlan& plan, const WideOperands& x) {
    const Format format = digit_format(*plan.machine.rule.machine);
    if (format.precision < residue_bits && !is_integer_unit(*plan.machine.rule.machine)) {
        throw Error({.what = fmt::format("{} cannot hold all integers up to 128", format_name(format)),
                     .where = plan.machine.name,
                     .fix = fmt::format("use {}, a machine with fp16 or bf16 operands, or ozaki1", exact_int32.name),
                     .exit = Exit::usage});
    }
    const std::vector<int> moduli = coprime_moduli(plan.via.slices);
    const int t = residue_integer_bits(plan.via.slices, x.k);
    if (t == 0) {
        throw Error(
            {.what = fmt::format("{} moduli leave no bits for the integers in sums of {} terms", plan.via.slices, x.k),
             .where = "--via",
             .fix = "use more moduli",
             .exit = Exit::usage});
    }
    const WholeOperand a(x.m, x.k, x.a, t,
                         [&x](std::int64_t i, std::int64_t p) { return static_cast<std::size_t>(i * x.k + p); });
    const WholeOperand b(x.n, x.k, x.b, t,
                         [&x](std::int64_t j, std::int64_t p) { return static_cast<std::size_t>(p * x.n + j); });
    const Integer product = product_of(moduli);
    std::vector<Integer> sums(static_cast<std::size_t>(x.m * x.n));
    NarrowProduct result{.digit_bits = t, .slices = plan.via.slices};
    IntegerProduct multiply(backend, plan.machine.rule, x, format);
    for (const int m : moduli) {
        const std::vector<float> left = a.residues(m), right = b.residues(m);
        const std::vector<double>& got = multiply(left, right);
        ++result.products;
        const Integer weight = weight_of(product / m, m);
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const bool is_integer = std::isfinite(got[i]) && std::fabs(got[i]) < 0x1p62;
            sums[i] += weight * residue(is_integer ? static_cast<std::int64_t>(got[i]) : 0, m);
        }
    }
    result.inexact = multiply.inexact();
    for (std::int64_t i = 0; i < x.m; ++i) {
        for (std::int64_t j = 0; j < x.n; ++j) {
            Integer sum = sums[static_cast<std::size_t>(i * x.n + j)] % product;
            if (2 * sum >= product) sum -= product;
            if (2 * sum < -product) sum += product;
            const int exponent =
                a.exponents[static_cast<std::size_t>(i)] + b.exponents[static_cast<std::size_t>(j)] - 2 * t;
            result.out.push_back(static_cast<double>(ldexp(Rounding(sum), exponent)));
        }
    }
    return result;
}

}  // namespace macheps::study
