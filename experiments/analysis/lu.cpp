// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/lu.hpp"

#include "core/arithmetic.hpp"
#include "core/float_environment.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/analysis/format_numbers.hpp"
#include "experiments/analysis/lu_blocked.hpp"
#include "experiments/analysis/row_update.hpp"

#include <numeric>
#include <type_traits>

namespace macheps::analysis {

namespace {

/// a - l u with one rounding, for formats whose fused sums fp64 does not round innocuously.
struct CodeFma {
    Format format;
    double operator()(double l, double u, double a) const {
        const auto code = [this](double x) {
            return encode64(format, x, Round::nearest_even, Overflow::nonsaturate);
        };
        const Rounded result = op(Operation::fma, format, code(-l), code(u), code(a), Round::nearest_even);
        return decode64(format, result.bits);
    }
};

/// The columns of a panel [height, width], whose rows are `ld` numbers apart, eliminated one by one. swap(k, pivot) exchanges
/// two of its rows, and whatever else belongs to them; below(pivot row, rows after it, its width) does what is left of a column.
/// False where a pivot is zero or not finite.
template <class Real, class Below, class Swap>
bool eliminate(std::int64_t height, std::int64_t width, std::int64_t ld, Real* a, bool pivots, const Below& below,
               const Swap& swap) {
    for (std::int64_t k = 0; k < width; ++k) {
        std::int64_t pivot = k;
        for (std::int64_t i = k + 1; pivots && i < height; ++i) {
            if (std::fabs(a[i * ld + k]) > std::fabs(a[pivot * ld + k])) pivot = i;
        }
        const Real divisor = a[pivot * ld + k];
        if (divisor == 0 || !std::isfinite(divisor)) return false;
        if (pivot != k) swap(k, pivot);
        below(a + k * ld + k, height - k - 1, width - k);
    }
    return true;
}

/// Columns [first, last) from row `first` on, in a place of their own: there they are close together. Rows of n numbers.
template <class Real, class Below>
bool eliminate_panel(std::int64_t n, Real* a, std::vector<std::int64_t>& rows, const LuPlan& plan, std::int64_t first,
                     std::int64_t last, const Below& below, std::vector<Real>& panel) {
    const std::int64_t height = n - first, width = last - first;
    // So that rows do not share lines of the cache, and end in whole vectors: what is computed there is of no use.
    constexpr std::int64_t apart = 16;
    const std::int64_t ld = width + apart;
    panel.resize(static_cast<std::size_t>(height * ld));
    for (std::int64_t i = 0; i < height; ++i) std::copy_n(a + (first + i) * n + first, width, panel.data() + i * ld);
    const auto swap = [&](std::int64_t k, std::int64_t pivot) {
        std::swap_ranges(panel.data() + k * ld, panel.data() + k * ld + width, panel.data() + pivot * ld);
        Real *x = a + (first + k) * n, *y = a + (first + pivot) * n;
        std::swap_ranges(x, x + n, y);
        std::swap(rows[static_cast<std::size_t>(first + k)], rows[static_cast<std::size_t>(first + pivot)]);
    };
    const auto below_in_panel = [&](Real* row, std::int64_t count, std::int64_t left) {
        below(row, ld, count, plan.fused ? left : 1 + (left - 1 + apart - 1) / apart * apart);
    };
    const bool done = eliminate(height, width, ld, panel.data(), plan.pivots, below_in_panel, swap);
    for (std::int64_t i = 0; i < height; ++i) std::copy_n(panel.data() + i * ld, width, a + (first + i) * n + first);
    return done;
}

/// Numbers in `Real`, every operation rounded by `round`.
template <class Real, class Round>
bool factor_in_place(std::int64_t n, Real* a, std::vector<std::int64_t>& rows, const LuPlan& plan, Simd simd,
                     const Round& round, ThreadPool& pool) {
    constexpr bool has_fused = std::is_same_v<Real, double> || std::is_same_v<Round, Unrounded>;
    const bool fuses_through_codes = plan.fused && plan.format.exponent_bits() > 5 && plan.format != fp64 && plan.format != fp32;
    const auto update = [&](Real l, const Real* u, Real* to, std::int64_t count) {
        if (!plan.fused) return update_row(simd, round, l, u, to, count);
        if constexpr (has_fused) {
            if (!fuses_through_codes) return update_row_fused(simd, round, l, u, to, count);
        }
        const CodeFma fused{plan.format};
        for (std::int64_t j = 0; j < count; ++j) to[j] = static_cast<Real>(fused(l, u[j], to[j]));
    };
    const auto below = [&](Real* row, std::int64_t ld, std::int64_t count, std::int64_t width) {
        if (!plan.fused) return eliminate_column(simd, round, row, ld, count, width);
        for (std::int64_t i = 1; i <= count; ++i) {
            Real* const to = row + i * ld;
            to[0] = rounded_quotient(round, to[0], row[0]);
            update(to[0], row + 1, to + 1, width - 1);
        }
    };
    if (plan.block == 0) {
        const auto swap = [&](std::int64_t k, std::int64_t pivot) {
            std::swap_ranges(a + k * n, a + k * n + n, a + pivot * n);
            std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(pivot)]);
        };
        return eliminate(
            n, n, n, a, plan.pivots,
            [&](Real* row, std::int64_t count, std::int64_t width) { below(row, n, count, width); }, swap);
    }
    CpuBackend engine(pool, simd);
    std::vector<Real> panel;
    for (std::int64_t first = 0; first < n; first += plan.block) {
        const std::int64_t last = std::min(first + plan.block, n);
        if (!eliminate_panel(n, a, rows, plan, first, last, below, panel)) return false;
        if (last == n) return true;
        // The rows of U beside the panel, by forward substitution.
        for (std::int64_t i = first + 1; i < last; ++i) {
            for (std::int64_t k = first; k < i; ++k) update(a[i * n + k], a + k * n + last, a + i * n + last, n - last);
        }
        update_trailing(n, a, first, last, plan, engine, pool, simd);
    }
    return true;
}

}  // namespace

Factors factor_lu(const Matrix& a, const LuPlan& plan, ThreadPool& pool, Simd simd) {
    const DefaultFloatModes modes;
    const std::int64_t n = a.n;
    Factors factors{.rows = std::vector<std::int64_t>(static_cast<std::size_t>(n))};
    std::iota(factors.rows.begin(), factors.rows.end(), 0);
    std::vector<double>& values = factors.lu.values;
    factors.lu.n = n;
    const auto factor = [&](auto* numbers, const auto& round) {
        return factor_in_place(n, numbers, factors.rows, plan, simd, round, pool);
    };
    bool done = false;
    if (plan.fused && plan.format != fp32 && plan.format != fp64) {
        values = a.values;
        done = factor(values.data(), Rounder<double>(plan.format));
    } else {
        done = with_numbers_of(plan.format, a.values, values, factor);
    }
    factors.is_regular = are_finite_made_canonical(values) && done;
    return factors;
}

}  // namespace macheps::analysis
