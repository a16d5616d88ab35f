// SPDX-License-Identifier: Apache-2.0
// Solves linear systems in any format for programs that keep their matrices in Eigen. This header is optional: no other
// file of macheps includes it. Eigen is used only for storage. Factors and solutions come from lu.hpp, cholesky.hpp and
// qr.hpp, whose order of operations is fixed. Eigen's own decompositions also run on Float<F>, but their order of
// additions depends on Eigen's version and block sizes.
#pragma once
#include "core/types/eigen.hpp"
#include "experiments/study/arithmetic.hpp"
#include "experiments/study/solve/factor/cholesky.hpp"
#include "experiments/study/solve/factor/lu.hpp"
#include "experiments/study/solve/factor/qr.hpp"
#include "experiments/study/solve/factor/triangular.hpp"

#include <Eigen/Core>

#include <vector>

namespace macheps::study {

template <Format F>
using FloatMatrix = Eigen::Matrix<Float<F>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <Format F>
using FloatVector = Eigen::Matrix<Float<F>, Eigen::Dynamic, 1>;

/// Factors a square matrix in the format of its elements: P A = L U, A = L L' or A = Q R (factors.hpp). Errors: throws
/// Error (usage) if `a` is not square.
template <Format F>
Factors factor(const Eigen::Ref<const FloatMatrix<F>>& a, Factorisation kind = Factorisation::lu, int threads = 1) {
    require_square(a.rows(), a.cols());
    Matrix numbers(a.rows());
    for (Eigen::Index i = 0; i < a.rows(); ++i) {
        for (Eigen::Index j = 0; j < a.cols(); ++j) numbers(i, j) = static_cast<double>(a(i, j));
    }
    ThreadPool pool(threads);
    if (kind == Factorisation::cholesky) return factor_cholesky(std::move(numbers), F, pool);
    if (kind == Factorisation::qr) return factor_qr(std::move(numbers), F, pool);
    return factor_lu(numbers, {.format = F}, pool);
}

/// Returns the factors as one matrix in the format F, with the layout of Factors::lu.
template <Format F>
FloatMatrix<F> numbers_of(const Factors& factors) {
    FloatMatrix<F> lu(factors.lu.n, factors.lu.n);
    for (Eigen::Index i = 0; i < lu.rows(); ++i) {
        for (Eigen::Index j = 0; j < lu.cols(); ++j) lu(i, j) = Float<F>(factors.lu(i, j));
    }
    return lu;
}

/// Solves A x = b by substitution in the format F and returns x. Every operation rounds once. If the factors are not
/// regular, every element of x is NaN. Errors: throws Error (usage) if the size of b differs from that of A.
template <Format F>
FloatVector<F> solve(const Factors& factors, const Eigen::Ref<const FloatVector<F>>& b) {
    require_rows(b.size(), factors.lu.n);
    std::vector<double> z;
    for (Eigen::Index i = 0; i < b.size(); ++i) z.push_back(static_cast<double>(b(i)));
    FloatVector<F> x(b.size());
    if (!factors.is_regular) {
        x.setConstant(Eigen::NumTraits<Float<F>>::quiet_NaN());
        return x;
    }
    const std::vector<double> y =
        with_arithmetic(F, [&](const auto& in) { return substitute(in, FactorNumbers<double>(factors), z); });
    for (Eigen::Index i = 0; i < x.size(); ++i) x(i) = Float<F>(y[static_cast<std::size_t>(i)]);
    return x;
}

}  // namespace macheps::study
