// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/via.hpp"

#include "core/float_environment.hpp"
#include "core/format_table.hpp"
#include "core/math64.hpp"
#include "core/ulp.hpp"
#include "experiments/analysis/residue_product.hpp"
#include "experiments/analysis/wide_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::analysis {

namespace {

/// The exact products, and the sums of the magnitudes.
struct ExactProduct {
    std::vector<WideValue> sums{};
    std::vector<double> magnitudes{};
};

ExactProduct wide_product(const WideOperands& x, ThreadPool* pool) {
    const auto size = static_cast<std::size_t>(x.m * x.n);
    ExactProduct exact{.sums = std::vector<WideValue>(size), .magnitudes = std::vector<double>(size)};
    const auto element = [&](std::int64_t at) {
        const std::int64_t i = at / x.n, j = at % x.n;
        WideSum sum;
        double magnitudes = 0;
        for (std::int64_t p = 0; p < x.k; ++p) {
            const double a = x.a[static_cast<std::size_t>(i * x.k + p)], b = x.b[static_cast<std::size_t>(p * x.n + j)];
            sum.add_product(a, b);
            magnitudes += std::fabs(a * b);
        }
        exact.sums[static_cast<std::size_t>(at)] = sum.value();
        exact.magnitudes[static_cast<std::size_t>(at)] = magnitudes;
    };
    if (pool != nullptr) {
        pool->run(x.m * x.n, element);
    } else {
        for (std::int64_t at = 0; at < x.m * x.n; ++at) element(at);
    }
    return exact;
}

double off_by(double out, const WideValue& exact) { return (out - exact.high) - exact.low; }

double largest_error(const std::vector<double>& out, const ExactProduct& exact) {
    double largest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (!std::isfinite(out[i]) || exact.magnitudes[i] == 0) continue;
        largest = std::max(largest, std::fabs(off_by(out[i], exact.sums[i])) / exact.magnitudes[i]);
    }
    return largest;
}

/// Computes the figures of GemmRow for outputs in `format`.
void measure_wide(GemmRow& row, const std::vector<double>& out, const ExactProduct& exact, const Format& format) {
    double rel = 0, rel2 = 0, most_rel = 0, ulps = 0, error2 = 0, bias = 0, drift = 0, signal = 0, noise = 0;
    std::uint64_t nonzero = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (!std::isfinite(out[i])) {
            ++row.nonfinite;
            continue;
        }
        ++row.outputs;
        const double value = exact.sums[i].high;
        const double e = off_by(out[i], exact.sums[i]), size = std::fabs(e);
        signal += value * value;
        noise += e * e;
        const double in_ulps = size / ulp(format, value);
        ulps += in_ulps;
        row.max_ulp = std::max(row.max_ulp, in_ulps);
        if (value != 0) {
            const double r = size / std::fabs(value);
            ++nonzero;
            most_rel = std::max(most_rel, r);
            rel += r;
            rel2 += r * r;
        }
        if (exact.magnitudes[i] == 0) continue;
        const double share = e / exact.magnitudes[i];
        error2 += share * share;
        bias += share;
        drift += value < 0 ? -share : share;
    }
    const auto count = static_cast<double>(row.outputs);
    row.max_error = largest_error(out, exact);
    if (row.outputs > 0) {
        row.mean_ulp = ulps / count;
        row.rms_error = std::sqrt(error2 / count);
        row.bias = bias / count;
        row.drift = drift / count;
        const double infinity = std::numeric_limits<double>::infinity();
        if (signal > 0) row.sqnr_db = noise == 0 ? infinity : 10 / 0x1.26bb1bbb55516p+1 * math::log(signal / noise);
    }
    if (nonzero > 0) {
        row.max_rel = most_rel;
        row.mean_rel = rel / static_cast<double>(nonzero);
        row.rms_rel = std::sqrt(rel2 / static_cast<double>(nonzero));
    }
    row.first = out.front();
    row.first_exact = exact.sums.front().high;
}

/// Computes one fma per term in Real, with k ascending.
template <class Real>
std::vector<double> fma_chain(const WideOperands& x) {
    std::vector<double> out;
    for (std::int64_t i = 0; i < x.m; ++i) {
        for (std::int64_t j = 0; j < x.n; ++j) {
            Real sum = 0;
            for (std::int64_t p = 0; p < x.k; ++p) {
                sum = std::fma(static_cast<Real>(x.a[static_cast<std::size_t>(i * x.k + p)]),
                               static_cast<Real>(x.b[static_cast<std::size_t>(p * x.n + j)]), sum);
            }
            out.push_back(double{sum});
        }
    }
    return out;
}

}  // namespace

WideOperands wide_operands(const Format& format, Distribution distribution, std::int64_t seed, double scale, std::int64_t m,
                           std::int64_t n, std::int64_t k) {
    WideOperands x{.m = m, .n = n, .k = k};
    const auto draw = [&](Operand operand, std::int64_t outer, std::int64_t p) {
        const double value = drawn_wide_element(distribution, operand, static_cast<std::uint64_t>(seed), outer, p, scale);
        return format == fp64 ? value : static_cast<double>(static_cast<float>(value));
    };
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t p = 0; p < k; ++p) x.a.push_back(draw(Operand::a, i, p));
    }
    for (std::int64_t p = 0; p < k; ++p) {
        for (std::int64_t j = 0; j < n; ++j) x.b.push_back(draw(Operand::b, j, p));
    }
    return x;
}

WideErrors wide_errors(const WideOperands& x, const std::vector<double>& out) {
    const ExactProduct exact = wide_product(x, nullptr);
    WideErrors errors{.max_error = largest_error(out, exact)};
    for (std::size_t i = 0; i < out.size(); ++i) errors.not_correct += out[i] != exact.sums[i].high;
    return errors;
}

std::vector<double> fp64_chain(const WideOperands& x) { return fma_chain<double>(x); }

std::string beyond_exactness(const ViaGrid& grid) {
    std::string text;
    if (!grid.via.is_ozaki() || (grid.digit_bits == 0 && !grid.via.has_residues)) return text;
    for (const SpelledRule& machine : grid.machines) {
        for (const std::int64_t k : grid.k) {
            if (grid.via.has_residues) {
                if (has_exact_residues(machine, k)) continue;
                text += fmt::format("{}: products of residues are not exact over {} terms\n", machine.name, k);
                continue;
            }
            const int most = exact_digit_bits(machine, k);
            if (grid.digit_bits <= most) continue;
            text += fmt::format("{}: digits of {} bits are not exact over {} terms, {} bits are\n", machine.name,
                                grid.digit_bits, k, most);
        }
    }
    return text;
}

void run_via(Backend& backend, ThreadPool& pool, const ViaGrid& grid, const std::function<void(const GemmRow&)>& row,
             const std::function<void(const std::string&)>& note) {
    const DefaultFloatModes modes;
    const auto each = [&](const Format& format, Distribution distribution, std::int64_t seed, double scale, std::int64_t m,
                          std::int64_t n, std::int64_t k) {
        const WideOperands x = wide_operands(format, distribution, seed, scale, m, n, k);
        const ExactProduct exact = wide_product(x, &pool);
        const std::vector<double> wide_chain = fp64_chain(x);
        const double wide_chain_error = largest_error(wide_chain, exact);
        const Format output = grid.via.is_ozaki() ? fp64 : fp32;
        GemmRow plain;
        measure_wide(plain, output == fp64 ? wide_chain : fma_chain<float>(x), exact, output);
        for (const SpelledRule& machine : grid.machines) {
            const NarrowProduct product = narrow_product(backend,
                                                         {.via = grid.via,
                                                          .machine = machine,
                                                          .digit_bits = grid.digit_bits,
                                                          .full = grid.full,
                                                          .combines_exactly = grid.combines_exactly},
                                                         x);
            if (grid.via.slices == 0 && note) note(fmt::format("{}: {} slices", machine.name, product.slices));
            GemmRow out{.machine = machine.name,
                        .format_a = std::string(format_name(format)),
                        .format_b = std::string(format_name(format)),
                        .output = std::string(format_name(output)),
                        .distribution = std::string(to_string(distribution)),
                        .scaling = "none",
                        .scale = scale,
                        .seed = seed,
                        .m = m,
                        .n = n,
                        .k = k,
                        .evidence = std::string(to_string(machine.rule.machine->evidence)),
                        .via = grid.via.name,
                        .digit_bits = product.digit_bits,
                        .slices = product.slices,
                        .products = product.products,
                        .inexact_products = product.inexact,
                        .combine = grid.via.is_ozaki() ? (grid.combines_exactly || grid.via.has_residues ? "exact" : "fp64") : "fp32",
                        .fp64_error = wide_chain_error,
                        .plain_error = plain.max_error,
                        .plain_max_ulp = plain.max_ulp,
                        .plain_mean_ulp = plain.mean_ulp};
            measure_wide(out, product.out, exact, output);
            row(out);
        }
    };
    for (const Format& format : grid.formats)
        for (const Distribution distribution : grid.distributions)
            for (const std::int64_t seed : grid.seeds)
                for (const double scale : grid.scales)
                    for (const std::int64_t m : grid.m)
                        for (const std::int64_t n : grid.n)
                            for (const std::int64_t k : grid.k) each(format, distribution, seed, scale, m, n, k);
}

}  // namespace macheps::analysis
