// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/lu.hpp"

#include "core/arithmetic.hpp"
#include "core/float_environment.hpp"
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

/// Eliminates columns [first, last) of the rows from `first` on, with rows of `n` numbers; the update reaches to column `end`.
/// False where a pivot is zero or not finite.
template <class Real, class Round, class Update>
bool eliminate(std::int64_t n, Real* a, std::vector<std::int64_t>& rows, bool pivots, std::int64_t first, std::int64_t last,
               std::int64_t end, const Round& round, const Update& update) {
    for (std::int64_t k = first; k < last; ++k) {
        std::int64_t pivot = k;
        for (std::int64_t i = k + 1; pivots && i < n; ++i) {
            if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
        }
        const Real divisor = a[pivot * n + k];
        if (divisor == 0 || !std::isfinite(divisor)) return false;
        if (pivot != k) {
            std::swap_ranges(a + k * n, a + k * n + n, a + pivot * n);
            std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(pivot)]);
        }
        for (std::int64_t i = k + 1; i < n; ++i) {
            const Real l = round(a[i * n + k] / divisor);
            a[i * n + k] = l;
            update(l, a + k * n + k + 1, a + i * n + k + 1, end - k - 1);
        }
    }
    return true;
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
    const std::int64_t step = plan.block == 0 ? n : plan.block;
    for (std::int64_t first = 0; first < n; first += step) {
        const std::int64_t last = std::min(first + step, n);
        if (!eliminate(n, a, rows, plan.pivots, first, last, last, round, update)) return false;
        if (last == n) return true;
        // The rows of U beside the panel, by forward substitution.
        for (std::int64_t i = first + 1; i < last; ++i) {
            for (std::int64_t k = first; k < i; ++k) update(a[i * n + k], a + k * n + last, a + i * n + last, n - last);
        }
        update_trailing(n, a, first, last, plan, pool, simd);
    }
    return true;
}

}  // namespace

Factors factor_lu(Matrix a, const LuPlan& plan, ThreadPool& pool, Simd simd) {
    const DefaultFloatModes modes;
    const std::int64_t n = a.n;
    Factors factors{.rows = std::vector<std::int64_t>(static_cast<std::size_t>(n))};
    std::iota(factors.rows.begin(), factors.rows.end(), 0);
    const bool in_float = plan.format == fp32 || (fits_float(plan.format) && !plan.fused);
    bool done = false;
    if (in_float) {
        std::vector<float> narrow(a.values.begin(), a.values.end());
        done = plan.format == fp32
                   ? factor_in_place(n, narrow.data(), factors.rows, plan, simd, Unrounded{}, pool)
                   : factor_in_place(n, narrow.data(), factors.rows, plan, simd, Rounder<float>(plan.format), pool);
        std::copy(narrow.begin(), narrow.end(), a.values.begin());
    } else if (plan.format == fp64) {
        done = factor_in_place(n, a.values.data(), factors.rows, plan, simd, Unrounded{}, pool);
    } else {
        done = factor_in_place(n, a.values.data(), factors.rows, plan, simd, Rounder<double>(plan.format), pool);
    }
    factors.is_regular = done && all_finite(a.values);
    factors.lu = std::move(a);
    return factors;
}

}  // namespace macheps::analysis
