// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/reference.hpp"

#include "experiments/study/solve/factor/lu.hpp"
#include "experiments/study/solve/inclusion.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace macheps::study {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The factors of P A = L U, computed with 113 digits.
struct QuadFactors {
    std::int64_t n = 0;
    std::vector<Quad> lu{};
    std::vector<std::int64_t> rows{};
    bool is_regular = true;

    const Quad& at(std::int64_t i, std::int64_t j) const { return lu[static_cast<std::size_t>(i * n + j)]; }
};

QuadFactors factor_in_quad(const Matrix& a, ThreadPool& pool) {
    const std::int64_t n = a.n;
    QuadFactors f{.n = n,
                  .lu = {a.values.begin(), a.values.end()},
                  .rows = std::vector<std::int64_t>(static_cast<std::size_t>(n))};
    std::iota(f.rows.begin(), f.rows.end(), 0);
    Quad* lu = f.lu.data();
    for (std::int64_t k = 0; k < n; ++k) {
        std::int64_t pivot = k;
        for (std::int64_t i = k + 1; i < n; ++i) {
            if (abs(lu[i * n + k]) > abs(lu[pivot * n + k])) pivot = i;
        }
        if (lu[pivot * n + k] == 0) {
            f.is_regular = false;
            return f;
        }
        if (pivot != k) {
            std::swap_ranges(lu + k * n, lu + k * n + n, lu + pivot * n);
            std::swap(f.rows[static_cast<std::size_t>(k)], f.rows[static_cast<std::size_t>(pivot)]);
        }
        const auto eliminate_row = [lu, n, k](std::int64_t i) {
            const Quad l = lu[i * n + k] / lu[k * n + k];
            lu[i * n + k] = l;
            for (std::int64_t j = k + 1; j < n; ++j) lu[i * n + j] -= l * lu[k * n + j];
        };
        pool.run(n - k - 1, [&](std::int64_t task) { eliminate_row(k + 1 + task); });
    }
    return f;
}

std::vector<Quad> solve_in_quad(const QuadFactors& f, const std::vector<Quad>& z) {
    std::vector<Quad> y(static_cast<std::size_t>(f.n));
    std::int64_t first = f.n;  // y[0, first) is zero and is skipped, which saves time for an inverse
    for (std::int64_t i = 0; i < f.n; ++i) {
        Quad s = z[static_cast<std::size_t>(f.rows[static_cast<std::size_t>(i)])];
        for (std::int64_t j = first; j < i; ++j) s -= f.at(i, j) * y[static_cast<std::size_t>(j)];
        y[static_cast<std::size_t>(i)] = s;
        if (first == f.n && s != 0) first = i;
    }
    for (std::int64_t i = f.n - 1; i >= 0; --i) {
        Quad& s = y[static_cast<std::size_t>(i)];
        for (std::int64_t j = i + 1; j < f.n; ++j) s -= f.at(i, j) * y[static_cast<std::size_t>(j)];
        s /= f.at(i, i);
    }
    return y;
}

std::vector<Quad> quad_residual(const Matrix& a, std::span<const double> b, const std::vector<Quad>& x) {
    std::vector<Quad> r(b.begin(), b.end());
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = 0; j < a.n; ++j)
            r[static_cast<std::size_t>(i)] -= Quad(a(i, j)) * x[static_cast<std::size_t>(j)];
    }
    return r;
}

/// Computes the inverse, stored column by column.
std::vector<Quad> quad_inverse(const QuadFactors& f, ThreadPool& pool) {
    std::vector<Quad> inverse(static_cast<std::size_t>(f.n * f.n));
    pool.run(f.n, [&](std::int64_t column) {
        std::vector<Quad> unit(static_cast<std::size_t>(f.n));
        unit[static_cast<std::size_t>(column)] = 1;
        const std::vector<Quad> y = solve_in_quad(f, unit);
        std::copy(y.begin(), y.end(), inverse.begin() + column * f.n);
    });
    return inverse;
}

/// Sets the condition numbers of `reference`, from the row sums of |inverse|, |inverse| |A| and |inverse| |A| |x|.
void measure_by_inverse(const Matrix& a, const std::vector<Quad>& inverse, Reference& reference) {
    const std::int64_t n = a.n;
    std::vector<double> ax(static_cast<std::size_t>(n)), row_sums(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            row_sums[static_cast<std::size_t>(i)] += std::fabs(a(i, j));
            ax[static_cast<std::size_t>(i)] +=
                std::fabs(a(i, j)) * std::fabs(static_cast<double>(reference.x[static_cast<std::size_t>(j)]));
        }
    }
    double inverse_norm = 0, cond = 0, cond_x = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        double sum = 0, weighted = 0, with_x = 0;
        for (std::int64_t j = 0; j < n; ++j) {
            const double m = std::fabs(static_cast<double>(inverse[static_cast<std::size_t>(j * n + i)]));
            sum += m;
            weighted += m * row_sums[static_cast<std::size_t>(j)];
            with_x += m * ax[static_cast<std::size_t>(j)];
        }
        inverse_norm = std::max(inverse_norm, sum);
        cond = std::max(cond, weighted);
        cond_x = std::max(cond_x, with_x);
    }
    reference.kappa = row_sum_norm(a) * inverse_norm;
    reference.kappa_kind = "inverse";
    reference.cond = cond;
    if (reference.x_norm > 0) reference.cond_x = cond_x / reference.x_norm;
}

/// Returns A^-1 z, or A^-T z if `transposed`, from fp64 factors.
std::vector<double> solve_native(const Factors& f, const std::vector<double>& z, bool transposed) {
    const std::int64_t n = f.lu.n;
    std::vector<double> y(static_cast<std::size_t>(n));
    if (!transposed) {
        for (std::int64_t i = 0; i < n; ++i) {
            double s = z[static_cast<std::size_t>(f.rows[static_cast<std::size_t>(i)])];
            for (std::int64_t j = 0; j < i; ++j) s -= f.lu(i, j) * y[static_cast<std::size_t>(j)];
            y[static_cast<std::size_t>(i)] = s;
        }
        for (std::int64_t i = n - 1; i >= 0; --i) {
            double& s = y[static_cast<std::size_t>(i)];
            for (std::int64_t j = i + 1; j < n; ++j) s -= f.lu(i, j) * y[static_cast<std::size_t>(j)];
            s /= f.lu(i, i);
        }
        return y;
    }
    std::vector<double> w = z;
    for (std::int64_t i = 0; i < n; ++i) {
        w[static_cast<std::size_t>(i)] /= f.lu(i, i);
        for (std::int64_t j = i + 1; j < n; ++j)
            w[static_cast<std::size_t>(j)] -= f.lu(i, j) * w[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = n - 1; i >= 0; --i) {
        for (std::int64_t j = 0; j < i; ++j)
            w[static_cast<std::size_t>(j)] -= f.lu(i, j) * w[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = 0; i < n; ++i)
        y[static_cast<std::size_t>(f.rows[static_cast<std::size_t>(i)])] = w[static_cast<std::size_t>(i)];
    return y;
}

/// Returns an estimate from below of the largest row sum of |inverse|. This is the 1-norm of the transposed inverse
/// (Hager 1984, with Higham's alternating vector, 1988).
double inverse_norm_estimate(const Factors& f) {
    const std::int64_t n = f.lu.n;
    const auto size = static_cast<std::size_t>(n);
    const auto one_norm = [](const std::vector<double>& v) {
        double sum = 0;
        for (const double each : v) sum += std::fabs(each);
        return sum;
    };
    std::vector<double> x(size, 1 / static_cast<double>(n));
    double estimate = 0;
    std::int64_t before = -1;
    for (int round = 0; round < 5; ++round) {
        const std::vector<double> y = solve_native(f, x, true);
        const double norm = one_norm(y);
        if (round > 0 && norm <= estimate) break;
        estimate = norm;
        std::vector<double> sign(size);
        for (std::size_t i = 0; i < size; ++i) sign[i] = y[i] < 0 ? -1 : 1;
        const std::vector<double> z = solve_native(f, sign, false);
        const auto at =
            std::max_element(z.begin(), z.end(), [](double p, double q) { return std::fabs(p) < std::fabs(q); });
        if (at - z.begin() == before) break;
        before = at - z.begin();
        std::fill(x.begin(), x.end(), 0);
        x[static_cast<std::size_t>(before)] = 1;
    }
    for (std::size_t i = 0; i < size; ++i) {
        x[i] = (i % 2 == 0 ? 1 : -1) * (1 + static_cast<double>(i) / std::max(1.0, static_cast<double>(n - 1)));
    }
    return std::max(estimate, 2 * one_norm(solve_native(f, x, true)) / (3 * static_cast<double>(n)));
}

void estimate_condition(const Matrix& a, const Factors& native, Reference& reference) {
    if (!native.is_regular) return;
    reference.kappa = row_sum_norm(a) * inverse_norm_estimate(native);
    reference.kappa_kind = "estimate";
}

/// Returns the solution of A x = b. Starts with x = 0 and adds corrections until a correction is negligible. Returns an
/// empty vector if the corrections stop shrinking.
std::vector<Oct> refined_solution(const Matrix& a, std::span<const double> b, ThreadPool& pool,
                                  const std::function<std::vector<Oct>(const std::vector<Oct>& r)>& correction) {
    std::vector<Oct> x(b.size());
    Oct last = 0;
    for (int step = 0; step < 100; ++step) {
        Oct size = 0, change = 0;
        const std::vector<Oct> d =
            correction(step == 0 ? std::vector<Oct>(b.begin(), b.end()) : wide_residual(a, b, x, pool));
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] += d[i];
            if (!isfinite(x[i])) return {};
            size = std::max<Oct>(size, abs(x[i]));
            change = std::max<Oct>(change, abs(d[i]));
        }
        if (change <= ldexp(size, -120)) return x;
        if (step > 1 && change >= last) return {};
        last = change;
    }
    return {};
}

std::vector<Oct> solution_by(const QuadFactors& f, const Matrix& a, std::span<const double> b, ThreadPool& pool) {
    return refined_solution(a, b, pool, [&](const std::vector<Oct>& r) {
        std::vector<Quad> rounded(r.size());
        std::transform(r.begin(), r.end(), rounded.begin(), [](const Oct& each) { return static_cast<Quad>(each); });
        const std::vector<Quad> d = solve_in_quad(f, rounded);
        return std::vector<Oct>(d.begin(), d.end());
    });
}

/// Returns the solution of A x = b, refined with fp64 factors. The residual is scaled by a power of two, so that the
/// residual and the correction fit in fp64.
std::vector<Oct> solution_by(const Factors& f, const Matrix& a, std::span<const double> b, ThreadPool& pool) {
    return refined_solution(a, b, pool, [&](const std::vector<Oct>& r) {
        Oct most = 0;
        for (const Oct& each : r) most = std::max<Oct>(most, abs(each));
        const int exponent = most == 0 ? 0 : ilogb(most);
        std::vector<double> rounded(r.size());
        std::transform(r.begin(), r.end(), rounded.begin(),
                       [&](const Oct& each) { return static_cast<double>(ldexp(each, -exponent)); });
        const std::vector<double> d = solve_native(f, rounded, false);
        std::vector<Oct> wide(d.begin(), d.end());
        for (Oct& each : wide) each = ldexp(each, exponent);
        return wide;
    });
}

/// Stores x, its error bound and the quality `word` in `reference`, if the bound is proven and small enough.
void certify(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, const Contraction& known,
             std::string_view word, ThreadPool& pool, Reference& reference) {
    double size = 0;
    for (const Oct& each : x) size = std::max(size, magnitude_above(each));
    const double bound = error_bound(a, b, x, known, pool) + size * 0x1p-112;  // covers rounding x to 113 digits
    const double least = size * (1 - 0x1p-50) - 2 * bound;  // lower bound of the exact solution's largest element
    const bool is_zero = size == 0 && std::all_of(b.begin(), b.end(), [](double each) { return each == 0; });
    const double relative = is_zero ? 0 : bound / least * (1 + 0x1p-50);
    if (!known.holds() || (!is_zero && !(least > 0 && relative <= max_reference_error))) return;
    reference.quality = word;
    reference.error_bound = relative;
    for (const Oct& each : x) {
        reference.x.push_back(static_cast<Quad>(each));
        reference.x_norm = std::max(reference.x_norm, static_cast<double>(abs(reference.x.back())));
    }
}

/// Proves the solution with an approximate inverse. If `tries_fp64` is true, first tries the inverse rounded to fp64.
/// If that does not suffice, uses the inverse with 113 digits.
void solve_by_quad_inverse(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, const QuadFactors& f,
                           bool tries_fp64, ThreadPool& pool, Reference& reference) {
    const std::vector<Quad> inverse = quad_inverse(f, pool);
    Contraction known;
    if (tries_fp64) {
        std::vector<double> rounded(inverse.size());
        std::transform(inverse.begin(), inverse.end(), rounded.begin(),
                       [](const Quad& each) { return static_cast<double>(each); });
        known = contraction(a, rounded, pool);
    }
    if (!known.holds()) known = contraction(a, inverse, pool);
    certify(a, b, x, known, "fp128", pool, reference);
    if (known.holds() && !reference.x.empty() && a.n <= max_inverse_size) measure_by_inverse(a, inverse, reference);
}

}  // namespace

Reference reference_solution(const Matrix& a, std::span<const double> b, ThreadPool& pool) {
    Reference reference{.quality = "uncertain"};
    if (a.n > max_quad_size) {
        const Factors native = factor_lu(a, {.format = fp64}, pool);
        if (!native.is_regular) {
            reference.kappa = infinity;
            return reference;
        }
        estimate_condition(a, native, reference);
        const std::vector<Oct> x = solution_by(native, a, b, pool);
        if (!x.empty())
            certify(a, b, x, contraction(a, native_inverse(native, pool), pool), "refined", pool, reference);
        return reference;
    }
    const QuadFactors f = factor_in_quad(a, pool);
    if (!f.is_regular) {
        reference.kappa = infinity;
        reference.kappa_kind = "inverse";
        return reference;
    }
    const std::vector<Oct> x = solution_by(f, a, b, pool);
    if (!x.empty() && a.n <= max_inverse_size) solve_by_quad_inverse(a, b, x, f, true, pool, reference);
    if (reference.kappa) return reference;
    const Factors native = factor_lu(a, {.format = fp64}, pool);
    estimate_condition(a, native, reference);
    if (x.empty() || a.n <= max_inverse_size) return reference;
    Contraction known;
    if (native.is_regular) known = contraction(a, native_inverse(native, pool), pool);
    if (known.holds()) {
        certify(a, b, x, known, "fp128", pool, reference);
    } else {
        solve_by_quad_inverse(a, b, x, f, false, pool, reference);
    }
    return reference;
}

SolutionErrors solution_errors(const Matrix& a, std::span<const double> b, std::span<const double> x,
                               std::span<const double> residual, const Reference& reference) {
    if (!all_finite(x) || !all_finite(residual)) return {infinity, infinity, infinity};
    SolutionErrors errors;
    if (!reference.x.empty()) {
        Quad most = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const Quad off = abs(Quad(x[i]) - reference.x[i]);
            if (off > most) most = off;
        }
        errors.forward = most == 0 ? 0 : static_cast<double>(most) / reference.x_norm;
    }
    const double scale = row_sum_norm(a) * max_norm(x) + max_norm(b), size = max_norm(residual);
    errors.normwise = size == 0 ? 0 : size / scale;
    for (std::int64_t i = 0; i < a.n; ++i) {
        double magnitudes = 0;
        for (std::int64_t j = 0; j < a.n; ++j)
            magnitudes += std::fabs(a(i, j)) * std::fabs(x[static_cast<std::size_t>(j)]);
        magnitudes += std::fabs(b[static_cast<std::size_t>(i)]);
        const double r = std::fabs(residual[static_cast<std::size_t>(i)]);
        if (r != 0) errors.componentwise = std::max(errors.componentwise, r / magnitudes);
    }
    return errors;
}

std::vector<double> exact_residual(const Matrix& a, std::span<const double> b, std::span<const double> x) {
    const std::vector<Quad> r = quad_residual(a, b, {x.begin(), x.end()});
    std::vector<double> rounded(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) rounded[i] = static_cast<double>(r[i]);
    return rounded;
}

}  // namespace macheps::study
