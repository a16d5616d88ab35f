// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/lu.hpp"

#include "core/arithmetic.hpp"
#include "core/host/float_environment.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/study/solve/factor/format_numbers.hpp"
#include "experiments/study/solve/factor/lu_blocked.hpp"
#include "experiments/study/solve/factor/lu_panel.hpp"
#include "experiments/study/solve/factor/row_update.hpp"

#include <numeric>
#include <type_traits>
#include <utility>

namespace macheps::study {

namespace {

/// Computes a - l u with one rounding, on the codes of the numbers. Used if the result of fma in the type of the
/// numbers would be rounded a second time, to the format, and this could change the result.
struct CodeFma {
    Format format;
    double operator()(double l, double u, double a) const {
        const auto code = [this](double x) { return encode64(format, x, Round::nearest_even, Overflow::nonsaturate); };
        const Rounded result = op(Operation::fma, format, code(-l), code(u), code(a), Round::nearest_even);
        return decode64(format, result.bits);
    }
};

/// Factors the matrix in place. Numbers are stored as `Real`, and `round` rounds the result of every operation.
template <class Real, class Round>
bool factor_in_place(std::int64_t n, Real* a, std::vector<std::int64_t>& rows, const LuPlan& plan, Simd simd,
                     const Round& round, ThreadPool& pool) {
    constexpr bool has_fused = std::is_same_v<Real, double> || std::is_same_v<Round, Unrounded>;
    const bool fuses_through_codes =
        plan.fused && plan.format.exponent_bits() > 5 && plan.format != fp64 && plan.format != fp32;
    const auto update = [&](Real l, const Real* u, Real* to, std::int64_t count) {
        if (!plan.fused) return update_row(simd, round, l, u, to, count);
        if constexpr (has_fused) {
            if (!fuses_through_codes) return update_row_fused(simd, round, l, u, to, count);
        }
        const CodeFma fused{plan.format};
        for (std::int64_t j = 0; j < count; ++j) to[j] = static_cast<Real>(fused(l, u[j], to[j]));
    };
    const auto swap = [&](std::int64_t k, std::int64_t pivot) {
        std::swap_ranges(a + k * n, a + k * n + n, a + pivot * n);
        std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(pivot)]);
    };
    const auto update_rows = [&](const RowTile<Real>& tile) {
        if (!plan.fused) return update_tile(simd, round, tile);
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t k = 0; k < tile.terms; ++k)
                update(tile.l[i * tile.ld_l + k], tile.u + k * tile.ld_u, tile.a + i * tile.ld_a, tile.width);
        }
    };
    const auto divide = [&](Real by, Real* numbers, std::int64_t count) {
        divide_row(simd, round, by, numbers, count);
    };
    const auto find_pivot = [&](const Real* numbers, std::int64_t count) {
        return plan.pivots ? largest_magnitude(simd, numbers, count) : 0;
    };
    CpuBackend engine(pool, simd);
    LuPanel<Real> panel;
    const std::int64_t block = plan.block == 0 ? n : plan.block;
    for (std::int64_t first = 0; first < n; first += block) {
        const std::int64_t last = std::min(first + block, n);
        panel.take(n, a, first, last);
        const bool done = panel.eliminate(find_pivot, divide, update, update_rows, swap);
        panel.give(n, a);
        if (!done) return false;
        if (last == n) return true;
        panel.solve_beside(n, a, update, update_rows);
        update_trailing(n, a, first, last, plan, engine, pool, simd);
    }
    return true;
}

}  // namespace

Factors factor_lu(const Matrix& a, const LuPlan& plan, ThreadPool& pool, Simd simd, Factors earlier) {
    const DefaultFloatModes modes;
    const std::int64_t n = a.n;
    Factors factors{.lu = std::move(earlier.lu), .rows = std::vector<std::int64_t>(static_cast<std::size_t>(n))};
    std::iota(factors.rows.begin(), factors.rows.end(), 0);
    std::vector<double>& values = factors.lu.values;
    factors.lu.n = n;
    const auto factor = [&](auto* numbers, const auto& round) {
        return factor_in_place(n, numbers, factors.rows, plan, simd, round, pool);
    };
    bool& done = factors.is_regular;
    if (plan.fused && plan.format != fp32 && plan.format != fp64) {
        values = a.values;
        done = factor(values.data(), Rounder<double>(plan.format));
        done = are_finite_made_canonical(values) && done;
    } else {
        done = with_numbers_of(plan.format, a.values, values, factor);
    }
    return factors;
}

}  // namespace macheps::study
