// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/cholesky.hpp"

#include "core/host/float_environment.hpp"
#include "experiments/study/solve/factor/format_numbers.hpp"
#include "experiments/study/solve/factor/row_update.hpp"

#include <cmath>
#include <numeric>

namespace macheps::study {

namespace {

/// Replaces the lower half of `a` with L. Numbers are stored as `Real`, and `round` rounds the result of every
/// operation. Returns false if a pivot is not positive or not finite.
template <class Real, class Round>
bool cholesky_in_place(std::int64_t n, Real* a, const Round& round, ThreadPool& pool, Simd simd) {
    std::vector<Real> column(static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < n; ++k) {
        const Real pivot = a[k * n + k];
        if (!(pivot > 0) || !std::isfinite(pivot)) return false;
        const Real root = round(std::sqrt(pivot));
        a[k * n + k] = root;
        for (std::int64_t i = k + 1; i < n; ++i) {
            a[i * n + k] = rounded_quotient(round, a[i * n + k], root);
            column[static_cast<std::size_t>(i)] = a[i * n + k];
        }
        const auto update = [&](std::int64_t i) {
            update_row(simd, round, a[i * n + k], column.data() + k + 1, a + i * n + k + 1, i - k);
        };
        // The rows of one step are independent. If there are few rows, waking up threads takes longer than the work.
        constexpr std::int64_t worth_threads = 1 << 17, grain = 32;
        if (pool.threads() == 1 || (n - k) * (n - k) < worth_threads) {
            for (std::int64_t i = k + 1; i < n; ++i) update(i);
        } else {
            pool.run((n - k - 1 + grain - 1) / grain, [&](std::int64_t part) {
                const std::int64_t first = k + 1 + part * grain, last = std::min(first + grain, n);
                for (std::int64_t i = first; i < last; ++i) update(i);
            });
        }
    }
    return true;
}

}  // namespace

Factors factor_cholesky(Matrix a, const Format& format, ThreadPool& pool, Simd simd) {
    const DefaultFloatModes modes;
    Factors factors{.kind = Factorisation::cholesky, .rows = std::vector<std::int64_t>(static_cast<std::size_t>(a.n))};
    std::iota(factors.rows.begin(), factors.rows.end(), 0);
    const bool done = with_numbers_of(format, a.values, a.values, [&](auto* numbers, const auto& round) {
        return cholesky_in_place(a.n, numbers, round, pool, simd);
    });
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = i + 1; j < a.n; ++j) a(i, j) = a(j, i);
    }
    factors.is_regular = done;
    factors.lu = std::move(a);
    return factors;
}

Matrix shifted(Matrix a, const Format& format, double c) {
    for (std::int64_t i = 0; i < a.n; ++i) a(i, i) += c * format.unit_roundoff() * a(i, i);
    return a;
}

bool is_symmetric(const Matrix& a) {
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
            if (a(i, j) != a(j, i)) return false;
        }
    }
    return true;
}

}  // namespace macheps::study
