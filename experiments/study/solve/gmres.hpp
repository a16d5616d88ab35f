// SPDX-License-Identifier: Apache-2.0
// GMRES without restarts, starting from zero (Saad, Schultz 1986, with modified Gram-Schmidt and Givens rotations). The
// left preconditioner is made from low-precision factors, or it is the identity. Products with A and with the
// preconditioner use one arithmetic. All other operations use another arithmetic.
#pragma once
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/triangular.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace macheps::study {

struct GmresResult {
    std::vector<double> d{};
    std::int64_t inner = 0;
    double residual = 0;     ///< final residual norm divided by the initial one
    bool is_finite = false;  ///< false: an intermediate result was not finite
};

/// The matrix A and the preconditioner C U^-1 L^-1 P R, in the arithmetic of the products. If `preconditions` is false,
/// the preconditioner is the identity.
template <class Products>
class Preconditioner {
  public:
    using Number = typename Products::Number;

    Preconditioner(const Products& in, const Matrix& a, const Factors& factors, const Equilibration& scaling,
                   bool preconditions)
        : in_(in),
          a_(a.values.begin(), a.values.end()),
          factors_(factors),
          scaling_(scaling),
          preconditions_(preconditions) {}

    /// Applies the preconditioner to a vector of doubles, such as a residual.
    std::vector<double> apply(const std::vector<double>& v) const {
        std::vector<Number> z;
        for (const double x : v) z.push_back(in_.from(x));
        return solved(std::move(z));
    }
    /// Computes A v and applies the preconditioner to it. A v is not rounded to double in between.
    std::vector<double> apply_to_product(const std::vector<double>& v) const {
        const std::size_t n = v.size();
        std::vector<Number> x, z(n);
        for (const double each : v) x.push_back(in_.from(each));
        for (std::size_t i = 0; i < n; ++i) {
            Number s = Number(0);
            for (std::size_t j = 0; j < n; ++j) s = in_.add(s, in_.mul(a_[i * n + j], x[j]));
            z[i] = s;
        }
        return solved(std::move(z));
    }

  private:
    std::vector<double> solved(std::vector<Number> z) const {
        const auto n = static_cast<std::int64_t>(z.size());
        if (!preconditions_) {
            std::vector<double> as_is;
            for (const Number& x : z) as_is.push_back(in_.to_double(x));
            return as_is;
        }
        for (std::int64_t i = 0; i < n; ++i) z[static_cast<std::size_t>(i)] *= Number(std::ldexp(1.0, scaling_.row(i)));
        const std::vector<Number> y = substitute(in_, factors_, z);
        std::vector<double> result(y.size());
        for (std::int64_t i = 0; i < n; ++i) {
            result[static_cast<std::size_t>(i)] =
                std::ldexp(in_.to_double(y[static_cast<std::size_t>(i)]), scaling_.column(i));
        }
        return result;
    }

    Products in_;
    std::vector<Number> a_;
    FactorNumbers<Number> factors_;
    const Equilibration& scaling_;
    bool preconditions_;
};

/// Returns the correction d for a residual r. Solves C U^-1 L^-1 P R A d = C U^-1 L^-1 P R r until the norm of the
/// residual is at most `tolerance` times its initial value.
template <class Rest, class Products>
GmresResult gmres(const Rest& in, const Preconditioner<Products>& system, const std::vector<double>& r,
                  double tolerance) {
    const std::size_t n = r.size();
    const auto rounded = [&in](std::vector<double> v) {
        for (double& x : v) x = in.from(x);
        return v;
    };
    const auto dot = [&in, n](const std::vector<double>& x, const std::vector<double>& y) {
        double s = 0;
        for (std::size_t i = 0; i < n; ++i) s = in.add(s, in.mul(x[i], y[i]));
        return s;
    };
    GmresResult result;
    std::vector<double> w = rounded(system.apply(r));
    const double beta = in.sqrt(dot(w, w));
    if (!std::isfinite(beta)) return result;
    result.d.assign(n, 0);
    result.is_finite = true;
    if (beta == 0) return result;
    for (double& x : w) x = in.div(x, beta);
    std::vector<std::vector<double>> v{w}, h;  // h[k] is column k of the triangular matrix, after all rotations
    std::vector<double> c, s, g{beta};
    const double goal = in.mul(in.from(tolerance), beta);
    while (true) {
        const std::size_t k = h.size();
        w = rounded(system.apply_to_product(v[k]));
        std::vector<double> column(k + 1);
        for (std::size_t j = 0; j <= k; ++j) {
            column[j] = dot(v[j], w);
            for (std::size_t i = 0; i < n; ++i) w[i] = in.sub(w[i], in.mul(column[j], v[j][i]));
        }
        double below = in.sqrt(dot(w, w));
        for (double& x : w) x = in.div(x, below);
        for (std::size_t j = 0; j < k; ++j) {
            const double upper = column[j], lower = column[j + 1];
            column[j] = in.add(in.mul(c[j], upper), in.mul(s[j], lower));
            column[j + 1] = in.sub(in.mul(c[j], lower), in.mul(s[j], upper));
        }
        const double length = in.sqrt(in.add(in.mul(column[k], column[k]), in.mul(below, below)));
        if (!std::isfinite(length)) {
            result.is_finite = false;
            return result;
        }
        c.push_back(in.div(column[k], length));
        s.push_back(in.div(below, length));
        column[k] = length;
        h.push_back(std::move(column));
        g.push_back(in.mul(-s[k], g[k]));
        g[k] = in.mul(c[k], g[k]);
        ++result.inner;
        if (std::fabs(g[k + 1]) <= goal || h.size() == n) break;
        v.push_back(w);
    }
    const std::size_t size = h.size();
    result.residual = std::fabs(g[size]) / beta;
    std::vector<double> y(size);
    for (std::size_t i = size; i-- > 0;) {
        double sum = g[i];
        for (std::size_t j = i + 1; j < size; ++j) sum = in.sub(sum, in.mul(h[j][i], y[j]));
        y[i] = in.div(sum, h[i][i]);
    }
    for (std::size_t j = 0; j < size; ++j) {
        for (std::size_t i = 0; i < n; ++i) result.d[i] = in.add(result.d[i], in.mul(v[j][i], y[j]));
    }
    result.is_finite = all_finite(result.d);
    return result;
}

}  // namespace macheps::study
