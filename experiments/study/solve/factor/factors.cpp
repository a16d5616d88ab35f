// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/factor/factors.hpp"

#include "core/error.hpp"
#include "experiments/study/solve/factor/qr.hpp"
#include "experiments/study/solve/factor/triangular.hpp"

#include <fmt/format.h>

#include <cmath>

namespace macheps::study {

std::string_view to_string(Factorisation factorisation) {
    for (const FactorisationName& row : factorisation_names) {
        if (row.factorisation == factorisation) return row.name;
    }
    return {};
}

std::optional<Factorisation> find_factorisation(std::string_view name) {
    for (const FactorisationName& row : factorisation_names) {
        if (row.name == name) return row.factorisation;
    }
    return std::nullopt;
}

Breakdown breakdown_of(const Factors& factors) {
    if (factors.is_regular) return Breakdown::none;
    const Matrix& lu = factors.lu;
    if (!all_finite(lu.values) || !all_finite(factors.diagonal) || !all_finite(factors.betas))
        return Breakdown::overflow;
    // For QR, the only other cause is a column that is zero from the diagonal down.
    if (factors.kind == Factorisation::qr) return Breakdown::singular;
    // Finds k, the step at which the factorisation ended because of its pivot (k, k). Column k already contains the
    // updates of all earlier steps.
    std::int64_t k = 0;
    while (k + 1 < lu.n && (lu(k, k) > 0 || (lu(k, k) != 0 && factors.kind == Factorisation::lu))) ++k;
    bool is_zero = lu(k, k) == 0;
    for (std::int64_t i = k + 1; i < lu.n; ++i) is_zero = is_zero && lu(i, k) == 0;
    if (is_zero) return Breakdown::singular;
    return factors.kind == Factorisation::cholesky ? Breakdown::indefinite : Breakdown::zero_pivot;
}

double lu_error(const Matrix& a, const Factors& factors) {
    const std::int64_t n = a.n;
    const Matrix& lu = factors.lu;
    if (!all_finite(lu.values)) return HUGE_VAL;
    if (factors.kind == Factorisation::qr) return qr_error(a, factors);
    const bool has_ones = factors.kind == Factorisation::lu;
    double most = 0;
    std::vector<double> sum(static_cast<std::size_t>(n)), low(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
        const double* from = a.row(factors.rows[static_cast<std::size_t>(i)]);
        std::copy(from, from + n, sum.begin());
        std::fill(low.begin(), low.end(), 0);
        for (std::int64_t k = 0; k <= i; ++k) {
            const double l = k == i && has_ones ? -1 : -lu(i, k);
            const double* u = lu.row(k);
            for (std::int64_t j = k; j < n; ++j) {
                // Double-double arithmetic: `low` collects the rounding errors of the product and the sum.
                const double p = l * u[j], lost = std::fma(l, u[j], -p);
                const double s = sum[static_cast<std::size_t>(j)], t = s + p, z = t - s;
                low[static_cast<std::size_t>(j)] += ((s - (t - z)) + (p - z)) + lost;
                sum[static_cast<std::size_t>(j)] = t;
            }
        }
        double row = 0;
        for (std::int64_t j = 0; j < n; ++j)
            row += std::fabs(sum[static_cast<std::size_t>(j)] + low[static_cast<std::size_t>(j)]);
        most = std::max(most, row);
    }
    const double norm = row_sum_norm(a);
    return norm == 0 ? 0 : most / norm;
}

double growth_factor(const Matrix& a, const Factors& factors) {
    double most = 0;
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = i; j < a.n; ++j) {
            double u = factors.lu(i, j);
            if (factors.kind == Factorisation::cholesky) u *= factors.lu(i, i);
            if (factors.kind == Factorisation::qr && i == j) {
                u = factors.diagonal.empty() ? 0 : factors.diagonal[static_cast<std::size_t>(i)];
            }
            u = std::fabs(u);
            if (!(u <= most)) most = u;
        }
    }
    const double before = max_norm(a.values);
    return before == 0 ? 0 : most / before;
}

void require_square(std::int64_t rows, std::int64_t columns) {
    if (rows == columns) return;
    throw Error({.what = fmt::format("a matrix of {} x {} is not square", rows, columns),
                 .where = "factor",
                 .fix = "use a matrix with as many rows as columns",
                 .exit = Exit::usage});
}

void require_rows(std::int64_t rows, std::int64_t wanted) {
    if (rows == wanted) return;
    throw Error({.what = fmt::format("the right-hand side has {} rows, but the matrix has {}", rows, wanted),
                 .where = "solve",
                 .fix = "give one number for each row",
                 .exit = Exit::usage});
}

}  // namespace macheps::study
