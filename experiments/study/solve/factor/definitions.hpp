// SPDX-License-Identifier: Apache-2.0
// Reference factorisations, written as plain loops. They define the results of the kernels in this folder, which return
// the same bits. The scalar type needs + - * / and sqrt: Float<F>, double, or a type with 113 digits. `a` is a
// row-major array of n * n numbers and is factored in place.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace macheps::study::definition {

/// Gaussian elimination by rows: l = a_ik / a_kk and a_ij = a_ij - l a_kj. Product and difference are rounded
/// separately, or with one rounding if `fused` is true. The pivot is the element of largest magnitude at or below the
/// diagonal; if several are equal, it is the first of these. If `pivoted` is false, it is the diagonal element. L
/// (without its unit diagonal) and U replace a. Row i of the result comes from row rows[i] of a. Returns false if a
/// pivot is zero or not finite. In this case, a is only partly factored.
template <class Number>
bool lu(std::int64_t n, Number* a, std::vector<std::int64_t>& rows, bool pivoted = true, bool fused = false) {
    using std::abs;
    using std::fma;
    using std::isfinite;
    rows.resize(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) rows[static_cast<std::size_t>(i)] = i;
    for (std::int64_t k = 0; k < n; ++k) {
        std::int64_t pivot = k;
        for (std::int64_t i = k + 1; pivoted && i < n; ++i) {
            if (abs(a[i * n + k]) > abs(a[pivot * n + k])) pivot = i;
        }
        const Number divisor = a[pivot * n + k];
        if (divisor == 0 || !isfinite(divisor)) return false;
        if (pivot != k) {
            for (std::int64_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
            std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(pivot)]);
        }
        for (std::int64_t i = k + 1; i < n; ++i) {
            const Number l = a[i * n + k] / divisor;
            a[i * n + k] = l;
            for (std::int64_t j = k + 1; j < n; ++j) {
                Number& place = a[i * n + j];
                place = fused ? fma(-l, a[k * n + j], place) : place - l * a[k * n + j];
            }
        }
    }
    return true;
}

/// Cholesky factorisation by columns: l_kk = sqrt(a_kk), l_ik = a_ik / l_kk, and a_ij = a_ij - l_ik l_jk below the
/// diagonal, where product and difference are rounded separately. Reads and writes only the lower half. Returns false
/// if a_kk is not positive or not finite.
template <class Number>
bool cholesky(std::int64_t n, Number* a) {
    using std::isfinite;
    using std::sqrt;
    for (std::int64_t k = 0; k < n; ++k) {
        const Number pivot = a[k * n + k];
        if (!(pivot > 0) || !isfinite(pivot)) return false;
        a[k * n + k] = sqrt(pivot);
        for (std::int64_t i = k + 1; i < n; ++i) a[i * n + k] = a[i * n + k] / a[k * n + k];
        for (std::int64_t i = k + 1; i < n; ++i) {
            for (std::int64_t j = k + 1; j <= i; ++j) a[i * n + j] = a[i * n + j] - a[i * n + k] * a[j * n + k];
        }
    }
    return true;
}

/// Householder QR by columns. x is the part of column k from the diagonal down, divided by the power of two of its
/// largest element. Then v = x, except v_k = x_k + sign(x_k) s with s = sqrt(sum of x_i x_i), and beta = 2 / (sum of
/// v_i v_i). Every sum starts at +0 and adds its terms with i ascending. The diagonal element r_kk is -sign(x_k) s
/// times that power of two. In the columns to the right, t = beta (sum of v_i a_ij) and a_ij = a_ij - v_i t. v replaces
/// column k. The last column stays unchanged. Returns false if a column is zero or not finite from the diagonal down.
/// Numbers may have up to 53 digits.
template <class Number>
bool qr(std::int64_t n, Number* a, std::vector<Number>& diagonal, std::vector<Number>& betas) {
    using std::abs;
    using std::isfinite;
    using std::sqrt;
    for (std::int64_t k = 0; k < n; ++k) {
        Number most = Number(0);
        for (std::int64_t i = k; i < n; ++i) {
            if (!isfinite(a[i * n + k])) return false;
            if (abs(a[i * n + k]) > most) most = abs(a[i * n + k]);
        }
        if (most == 0) return false;
        if (k + 1 == n) {
            diagonal.push_back(a[k * n + k]);
            return true;
        }
        const int exponent = std::ilogb(static_cast<double>(most));
        Number squares = Number(0);
        for (std::int64_t i = k; i < n; ++i) {
            a[i * n + k] = Number(std::ldexp(static_cast<double>(a[i * n + k]), -exponent));
            squares = squares + a[i * n + k] * a[i * n + k];
        }
        const bool is_negative = a[k * n + k] < 0;
        const Number norm = is_negative ? -sqrt(squares) : sqrt(squares);
        diagonal.push_back(Number(std::ldexp(static_cast<double>(-norm), exponent)));
        a[k * n + k] = a[k * n + k] + norm;
        Number of_v = Number(0);
        for (std::int64_t i = k; i < n; ++i) of_v = of_v + a[i * n + k] * a[i * n + k];
        betas.push_back(Number(2) / of_v);
        for (std::int64_t j = k + 1; j < n; ++j) {
            Number t = Number(0);
            for (std::int64_t i = k; i < n; ++i) t = t + a[i * n + k] * a[i * n + j];
            t = betas.back() * t;
            for (std::int64_t i = k; i < n; ++i) a[i * n + j] = a[i * n + j] - a[i * n + k] * t;
        }
    }
    return true;
}

}  // namespace macheps::study::definition
