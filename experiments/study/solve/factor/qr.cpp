// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/qr.hpp"

#include "core/host/float_environment.hpp"
#include "experiments/study/solve/factor/format_numbers.hpp"
#include "experiments/study/solve/quad.hpp"

#include <cmath>
#include <numeric>

namespace macheps::study {

namespace {

/// Applies reflection k to the columns j > k. Computes t_j, the sum of v_i a_ij over the rows i >= k, and then a_ij =
/// a_ij - v_i (beta t_j). Uses the first n - k - 1 elements of `t`.
template <class Real, class Round>
void reflect(std::int64_t n, std::int64_t k, Real* a, Real beta, std::vector<Real>& t, const Round& round,
             ThreadPool& pool, Simd simd) {
    const std::int64_t columns = n - k - 1;
    constexpr std::int64_t worth_threads = 1 << 16, grain = 128;
    const std::int64_t parts =
        pool.threads() == 1 || columns * columns < worth_threads ? 1 : (columns + grain - 1) / grain;
    const std::int64_t each = parts == 1 ? columns : grain;
    std::fill_n(t.begin(), columns, Real{0});
    pool.run(parts, [&](std::int64_t part) {
        const std::int64_t first = part * each, count = std::min(each, columns - first);
        Real* sums = t.data() + first;
        for (std::int64_t i = k; i < n; ++i)
            update_row(simd, round, -a[i * n + k], a + i * n + k + 1 + first, sums, count);
        for (std::int64_t j = 0; j < count; ++j) sums[j] = rounded_product(round, beta, sums[j]);
        for (std::int64_t i = k; i < n; ++i)
            update_row(simd, round, a[i * n + k], sums, a + i * n + k + 1 + first, count);
    });
}

/// Factors the matrix in place. Numbers are stored as `Real`, and `round` rounds the result of every operation. Returns
/// false if a column is zero or not finite from the diagonal down.
template <class Real, class Round>
bool qr_in_place(std::int64_t n, Real* a, std::vector<double>& diagonal, std::vector<double>& betas, const Round& round,
                 ThreadPool& pool, Simd simd) {
    std::vector<Real> t(static_cast<std::size_t>(n));
    const auto scaled = [&round](Real x, int exponent) {
        return rounded_number<Real>(round, std::ldexp(double{x}, exponent));
    };
    for (std::int64_t k = 0; k < n; ++k) {
        Real most = 0;
        for (std::int64_t i = k; i < n; ++i) {
            const Real size = std::fabs(a[i * n + k]);
            if (!std::isfinite(size)) return false;
            most = std::max(most, size);
        }
        if (most == 0) return false;
        if (k + 1 == n) {
            diagonal.push_back(double{a[k * n + k]});
            return true;
        }
        const int exponent = std::ilogb(most);
        Real squares = 0;
        for (std::int64_t i = k; i < n; ++i) {
            Real& x = a[i * n + k];
            x = scaled(x, -exponent);
            squares = round(squares + rounded_product(round, x, x));
        }
        Real& top = a[k * n + k];
        const Real norm = round(std::sqrt(squares)), signed_norm = top < 0 ? -norm : norm;
        diagonal.push_back(double{scaled(-signed_norm, exponent)});
        top = round(top + signed_norm);
        Real of_v = 0;
        for (std::int64_t i = k; i < n; ++i) of_v = round(of_v + rounded_product(round, a[i * n + k], a[i * n + k]));
        const Real beta = rounded_quotient(round, Real{2}, of_v);
        betas.push_back(double{beta});
        reflect(n, k, a, beta, t, round, pool, simd);
    }
    return true;
}

/// Returns norm(A - Q R), computed in Number. The reflections are applied in reverse order, from the last one to the
/// first.
template <class Number>
double qr_distance(const Matrix& a, const Factors& factors) {
    const std::int64_t n = a.n;
    std::vector<Number> m(a.values.size()), t(static_cast<std::size_t>(n));
    const auto at = [n](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * n + j); };
    for (std::int64_t i = 0; i < n; ++i) {
        m[at(i, i)] = Number(factors.diagonal[static_cast<std::size_t>(i)]);
        for (std::int64_t j = i + 1; j < n; ++j) m[at(i, j)] = Number(factors.lu(i, j));
    }
    for (std::int64_t k = n - 2; k >= 0; --k) {
        std::fill(t.begin(), t.end(), Number(0));
        for (std::int64_t i = k; i < n; ++i) {
            const Number v(factors.lu(i, k));
            for (std::int64_t j = k; j < n; ++j) t[static_cast<std::size_t>(j)] += v * m[at(i, j)];
        }
        for (std::int64_t i = k; i < n; ++i) {
            const Number v = Number(factors.lu(i, k)) * Number(factors.betas[static_cast<std::size_t>(k)]);
            for (std::int64_t j = k; j < n; ++j) m[at(i, j)] -= v * t[static_cast<std::size_t>(j)];
        }
    }
    double most = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        double row = 0;
        for (std::int64_t j = 0; j < n; ++j) row += std::fabs(static_cast<double>(Number(a(i, j)) - m[at(i, j)]));
        most = std::max(most, row);
    }
    return most;
}

bool are_numbers_of_fp32(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double x) { return double{static_cast<float>(x)} == x; });
}

}  // namespace

Factors factor_qr(Matrix a, const Format& format, ThreadPool& pool, Simd simd) {
    const DefaultFloatModes modes;
    Factors factors{.kind = Factorisation::qr, .rows = std::vector<std::int64_t>(static_cast<std::size_t>(a.n))};
    std::iota(factors.rows.begin(), factors.rows.end(), 0);
    const bool done = with_numbers_of(format, a.values, a.values, [&](auto* numbers, const auto& round) {
        return qr_in_place(a.n, numbers, factors.diagonal, factors.betas, round, pool, simd);
    });
    factors.is_regular = done && all_finite(factors.diagonal) && all_finite(factors.betas);
    factors.lu = std::move(a);
    return factors;
}

double qr_error(const Matrix& a, const Factors& factors) {
    if (!factors.is_regular) return HUGE_VAL;
    const double norm = row_sum_norm(a);
    if (norm == 0) return 0;
    const bool is_narrow = are_numbers_of_fp32(factors.lu.values) && are_numbers_of_fp32(factors.betas);
    return (is_narrow ? qr_distance<double>(a, factors) : qr_distance<Quad>(a, factors)) / norm;
}

}  // namespace macheps::study
