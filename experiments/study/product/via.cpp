// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/via.hpp"

#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "experiments/study/product/product_errors.hpp"
#include "experiments/study/product/residue_product.hpp"
#include "experiments/study/product/wide_sum.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::study {

namespace {

std::vector<ExactOutput> wide_product(const WideOperands& x, ThreadPool* pool) {
    std::vector<ExactOutput> exact(static_cast<std::size_t>(x.m * x.n));
    const auto element = [&](std::int64_t at) {
        const std::int64_t i = at / x.n, j = at % x.n;
        WideSum sum;
        double magnitudes = 0;
        for (std::int64_t p = 0; p < x.k; ++p) {
            const double a = x.a[static_cast<std::size_t>(i * x.k + p)], b = x.b[static_cast<std::size_t>(p * x.n + j)];
            sum.add_product(a, b);
            magnitudes += std::fabs(a * b);
        }
        exact[static_cast<std::size_t>(at)] = {sum.value(), magnitudes};
    };
    if (pool != nullptr) {
        pool->run(x.m * x.n, element);
    } else {
        for (std::int64_t at = 0; at < x.m * x.n; ++at) element(at);
    }
    return exact;
}

/// Computes each output as a chain of fma in Real, with one fma per term and k ascending.
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

WideOperands wide_operands(const Format& format, Distribution distribution, std::int64_t seed, double scale,
                           std::int64_t m, std::int64_t n, std::int64_t k) {
    WideOperands x{.m = m, .n = n, .k = k};
    const auto draw = [&](Operand operand, std::int64_t outer, std::int64_t p) {
        const double value =
            drawn_wide_element(distribution, operand, static_cast<std::uint64_t>(seed), outer, p, scale);
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
    const std::vector<ExactOutput> exact = wide_product(x, nullptr);
    WideErrors errors{.max_error = largest_error(out, exact)};
    for (std::size_t i = 0; i < out.size(); ++i) errors.not_correct += out[i] != exact[i].sum.high;
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
                text += fmt::format("{}: residue products are not exact over {} terms\n", machine.name, k);
                continue;
            }
            const int most = exact_digit_bits(machine, k);
            if (grid.digit_bits <= most) continue;
            text += fmt::format(
                "{}: digits of {} bits are too wide for exact sums of {} terms; digits of {} bits are not\n",
                machine.name, grid.digit_bits, k, most);
        }
    }
    return text;
}

void run_via(Backend& backend, ThreadPool& pool, const ViaGrid& grid,
             const std::function<void(const reports::GemmRow&)>& row,
             const std::function<void(const std::string&)>& note) {
    const DefaultFloatModes modes;
    const auto each = [&](const Format& format, Distribution distribution, std::int64_t seed, double scale,
                          std::int64_t m, std::int64_t n, std::int64_t k) {
        const WideOperands x = wide_operands(format, distribution, seed, scale, m, n, k);
        const std::vector<ExactOutput> exact = wide_product(x, &pool);
        const std::vector<double> wide_chain = fp64_chain(x);
        const double wide_chain_error = largest_error(wide_chain, exact);
        const Format output = grid.via.is_ozaki() ? fp64 : fp32;
        reports::GemmRow plain;
        measure<double>(plain, output == fp64 ? wide_chain : fma_chain<float>(x), exact, output);
        for (const SpelledRule& machine : grid.machines) {
            const NarrowProduct product = narrow_product(backend,
                                                         {.via = grid.via,
                                                          .machine = machine,
                                                          .digit_bits = grid.digit_bits,
                                                          .full = grid.full,
                                                          .combines_exactly = grid.combines_exactly},
                                                         x);
            if (grid.via.slices == 0 && note) note(fmt::format("{}: {} slices", machine.name, product.slices));
            reports::GemmRow out{.machine = machine.name,
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
                                 .combine = grid.via.is_ozaki()
                                                ? (grid.combines_exactly || grid.via.has_residues ? "exact" : "fp64")
                                                : "fp32",
                                 .fp64_error = wide_chain_error,
                                 .plain_error = plain.max_error,
                                 .plain_max_ulp = plain.max_ulp,
                                 .plain_mean_ulp = plain.mean_ulp};
            measure<double>(out, product.out, exact, output);
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

}  // namespace macheps::study
