// SPDX-License-Identifier: Apache-2.0
// Checks that Eigen's conjugate gradients in emulated formats give the same bits as the recurrences in plain loops.
#include "tests/core/eigen_matrices.hpp"

#include <Eigen/IterativeLinearSolvers>

namespace eigen_conjugate_gradients_test {

using namespace macheps;
using namespace macheps::test;

namespace {

template <class Scalar>
Scalar dot(const Vector<Scalar>& x, const Vector<Scalar>& y) {
    Scalar sum = x(0) * y(0);
    for (Eigen::Index i = 1; i < x.size(); ++i) sum = sum + x(i) * y(i);
    return sum;
}

template <class Scalar>
Vector<Scalar> times(const Matrix<Scalar>& a, const Vector<Scalar>& x) {
    Vector<Scalar> y(a.rows());
    for (Eigen::Index i = 0; i < a.rows(); ++i) {
        Scalar sum(0);
        for (Eigen::Index j = 0; j < a.cols(); ++j) sum = sum + a(i, j) * x(j);
        y(i) = sum;
    }
    return y;
}

/// Solves a x = b by conjugate gradients (Hestenes and Stiefel) from x = 0, without a preconditioner. Ends early if the
/// squared norm of the residual is below the smallest normal number.
template <class Scalar>
Vector<Scalar> conjugate_gradients(const Matrix<Scalar>& a, const Vector<Scalar>& b, int iterations) {
    Vector<Scalar> x(b.size()), residual = b, direction = b;
    for (auto& element : x) element = Scalar(0);
    Scalar square = dot(residual, residual);
    for (int i = 0; i < iterations; ++i) {
        const Vector<Scalar> product = times(a, direction);
        const Scalar alpha = square / dot(direction, product);
        for (Eigen::Index j = 0; j < b.size(); ++j) {
            x(j) = x(j) + alpha * direction(j);
            residual(j) = residual(j) - alpha * product(j);
        }
        const Scalar old = square;
        square = dot(residual, residual);
        if (square < std::numeric_limits<Scalar>::min()) break;
        const Scalar beta = square / old;
        for (Eigen::Index j = 0; j < b.size(); ++j) direction(j) = residual(j) + beta * direction(j);
    }
    return x;
}

}  // namespace

TEMPLATE_TEST_CASE("Eigen's conjugate gradients give the same bits as the recurrences in plain loops", "[core][eigen]",
                   Float<bf16>, Float<fp16>, Float<tf32>, Float<fp32>) {
    using Scalar = TestType;
    const int n = 12;
    Matrix<Scalar> a = matrix<Scalar>(n, n, 3, 0);
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < i; ++j) a(i, j) = a(j, i);
        a(i, i) = Scalar(64 + i);
    }
    const Vector<Scalar> b = matrix<Scalar>(n, 1, 4, 0);
    for (const int iterations : {1, 2, 5}) {
        Eigen::ConjugateGradient<Matrix<Scalar>, Eigen::Lower | Eigen::Upper, Eigen::IdentityPreconditioner> solver(a);
        solver.setMaxIterations(iterations);
        solver.setTolerance(Scalar(0));
        const Vector<Scalar> x = solver.solve(b);
        CHECK(differences(x, conjugate_gradients(a, b, iterations)) == "");
    }
}

}  // namespace eigen_conjugate_gradients_test
