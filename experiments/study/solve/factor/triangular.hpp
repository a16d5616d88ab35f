// SPDX-License-Identifier: Apache-2.0
// Solves a linear system from the factors of its matrix, in any arithmetic. Every product and every difference is
// rounded separately.
#pragma once
#include "experiments/study/solve/factor/factors.hpp"

#include <vector>

namespace macheps::study {

/// Throw Error (usage) if a matrix is not square, or if a right-hand side does not have as many rows as the matrix.
void require_square(std::int64_t rows, std::int64_t columns);
void require_rows(std::int64_t rows, std::int64_t wanted);

/// Factors, converted to the number type of an arithmetic.
template <class Number>
struct FactorNumbers {
    Factorisation kind{};
    std::vector<Number> lu{}, diagonal{}, betas{};  ///< lu is row-major
    std::vector<std::int64_t> rows{};

    explicit FactorNumbers(const Factors& f)
        : kind(f.kind),
          lu(f.lu.values.begin(), f.lu.values.end()),
          diagonal(f.diagonal.begin(), f.diagonal.end()),
          betas(f.betas.begin(), f.betas.end()),
          rows(f.rows) {}

    std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
    const Number* row(std::int64_t i) const { return lu.data() + i * size(); }
};

/// Computes y = L^-1 y by forward substitution: y_i = y_i - l_ij y_j, with j ascending. For Cholesky, y_i is then
/// divided by l_ii.
template <class Arithmetic, class Number = typename Arithmetic::Number>
void substitute_forward(const Arithmetic& in, const FactorNumbers<Number>& f, std::vector<Number>& y) {
    for (std::int64_t i = 0; i < f.size(); ++i) {
        Number s = y[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < i; ++j) s = in.sub(s, in.mul(f.row(i)[j], y[static_cast<std::size_t>(j)]));
        y[static_cast<std::size_t>(i)] = f.kind == Factorisation::cholesky ? in.div(s, f.row(i)[i]) : s;
    }
}

/// Computes y = Q' y, one reflection at a time: t = beta (sum of v_i y_i), then y_i = y_i - v_i t. The sum starts at +0
/// and adds its terms with i ascending.
template <class Arithmetic, class Number = typename Arithmetic::Number>
void reflect_vector(const Arithmetic& in, const FactorNumbers<Number>& f, std::vector<Number>& y) {
    for (std::int64_t k = 0; k + 1 < f.size(); ++k) {
        Number t = Number(0);
        for (std::int64_t i = k; i < f.size(); ++i) t = in.add(t, in.mul(f.row(i)[k], y[static_cast<std::size_t>(i)]));
        t = in.mul(f.betas[static_cast<std::size_t>(k)], t);
        for (std::int64_t i = k; i < f.size(); ++i) {
            Number& each = y[static_cast<std::size_t>(i)];
            each = in.sub(each, in.mul(f.row(i)[k], t));
        }
    }
}

/// Returns U^-1 L^-1 P z, or R^-1 Q' z for QR. The elements of `z` have the row order of the original matrix.
template <class Arithmetic, class Number = typename Arithmetic::Number>
std::vector<Number> substitute(const Arithmetic& in, const FactorNumbers<Number>& f, const std::vector<Number>& z) {
    std::vector<Number> y;
    y.reserve(f.rows.size());
    for (const std::int64_t row : f.rows) y.push_back(z[static_cast<std::size_t>(row)]);
    const bool is_qr = f.kind == Factorisation::qr;
    if (is_qr) {
        reflect_vector(in, f, y);
    } else {
        substitute_forward(in, f, y);
    }
    for (std::int64_t i = f.size() - 1; i >= 0; --i) {
        Number s = y[static_cast<std::size_t>(i)];
        for (std::int64_t j = i + 1; j < f.size(); ++j)
            s = in.sub(s, in.mul(f.row(i)[j], y[static_cast<std::size_t>(j)]));
        y[static_cast<std::size_t>(i)] = in.div(s, is_qr ? f.diagonal[static_cast<std::size_t>(i)] : f.row(i)[i]);
    }
    return y;
}

}  // namespace macheps::study
