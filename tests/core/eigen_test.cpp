// SPDX-License-Identifier: Apache-2.0
// Eigen in emulated formats: LU, QR and conjugate gradients give the bits of the same elimination written out with
// Float.
#include "core/eigen.hpp"
#include "core/float_print.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <Eigen/IterativeLinearSolvers>
#include <Eigen/LU>
#include <Eigen/QR>

#include <vector>

using namespace macheps;

namespace {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
template <class Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

/// Entries are multiples of 1/8 from -4 to 4, with a stronger diagonal.
template <class Scalar>
Matrix<Scalar> matrix(int rows, int columns, std::uint64_t seed, double diagonal) {
    Matrix<Scalar> a(rows, columns);
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
            const auto bits = random_bits({.seed = seed}, static_cast<std::uint64_t>(i * columns + j));
            a(i, j) = Scalar((static_cast<double>(bits % 65) - 32) / 8 + (i == j ? diagonal : 0));
        }
    }
    return a;
}

/// "" when every element of both has the same bits.
template <class A, class B>
std::string differences(const A& actual, const B& expected) {
    std::string text;
    for (Eigen::Index i = 0; i < actual.rows(); ++i) {
        for (Eigen::Index j = 0; j < actual.cols(); ++j) {
            if (actual(i, j).bits() == expected(i, j).bits()) continue;
            text += fmt::format("[{}, {}] {} expected {}\n", i, j, actual(i, j), expected(i, j));
        }
    }
    return text;
}

/// LU with row exchanges, right-looking: the multipliers below the diagonal, U on and above it.
template <class Scalar>
void eliminate(Matrix<Scalar>& a, std::vector<int>& order, bool full, std::vector<int>& columns) {
    const int n = static_cast<int>(a.rows());
    order.resize(static_cast<std::size_t>(n));
    columns = order;
    for (int i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = columns[static_cast<std::size_t>(i)] = i;
    for (int k = 0; k < n; ++k) {
        int row = k, column = k;
        for (int j = k; j < (full ? n : k + 1); ++j) {
            for (int i = k; i < n; ++i) {
                if (abs(a(i, j)) > abs(a(row, column))) row = i, column = j;
            }
        }
        for (int j = 0; j < n; ++j) std::swap(a(k, j), a(row, j));
        for (int i = 0; i < n; ++i) std::swap(a(i, k), a(i, column));
        std::swap(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(row)]);
        std::swap(columns[static_cast<std::size_t>(k)], columns[static_cast<std::size_t>(column)]);
        for (int i = k + 1; i < n; ++i) a(i, k) = a(i, k) / a(k, k);
        for (int j = k + 1; j < n; ++j) {
            for (int i = k + 1; i < n; ++i) a(i, j) = a(i, j) - a(i, k) * a(k, j);
        }
    }
}

/// Householder QR: R on and above the diagonal, the essential parts of the reflectors below it.
template <class Scalar>
void reflect(Matrix<Scalar>& a, Vector<Scalar>& taus) {
    const int rows = static_cast<int>(a.rows()), columns = static_cast<int>(a.cols());
    taus.resize(columns);
    for (int k = 0; k < columns; ++k) {
        Scalar tail(0);
        for (int i = k + 1; i < rows; ++i) tail = i == k + 1 ? a(i, k) * a(i, k) : tail + a(i, k) * a(i, k);
        const Scalar head = a(k, k);
        Scalar beta = head, tau(0);
        if (tail > std::numeric_limits<Scalar>::min()) {
            beta = sqrt(head * head + tail);
            if (head >= Scalar(0)) beta = -beta;
            for (int i = k + 1; i < rows; ++i) a(i, k) = a(i, k) / (head - beta);
            tau = (beta - head) / beta;
        } else {
            for (int i = k + 1; i < rows; ++i) a(i, k) = Scalar(0);
        }
        taus(k) = tau;
        a(k, k) = beta;
        if (k + 1 == rows) {  // a row alone: no essential part
            for (int j = k + 1; j < columns; ++j) a(k, j) = a(k, j) * (Scalar(1) - tau);
            continue;
        }
        if (tau == Scalar(0)) continue;
        for (int j = k + 1; j < columns; ++j) {
            Scalar sum(0);
            for (int i = k + 1; i < rows; ++i) sum = sum + a(i, k) * a(i, j);
            sum = sum + a(k, j);
            a(k, j) = a(k, j) - tau * sum;
            for (int i = k + 1; i < rows; ++i) a(i, j) = a(i, j) - (tau * a(i, k)) * sum;
        }
    }
}

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

/// Hestenes and Stiefel, from zero, without a preconditioner; ends when the square of the residual is no normal number.
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

TEMPLATE_TEST_CASE("Eigen's LU is the elimination written out", "[core][eigen]", Float<bf16>, Float<fp16>,
                   Float<e4m3fn>, Float<e5m2>, Float<tf32>, Float<fp32>) {
    using Scalar = TestType;
    for (const int n : {1, 2, 5, 13}) {
        const auto a = matrix<Scalar>(n, n, static_cast<std::uint64_t>(n), 8);
        Matrix<Scalar> mine = a;
        std::vector<int> order, columns;
        eliminate(mine, order, false, columns);
        const Eigen::PartialPivLU<Matrix<Scalar>> partial(a);
        CHECK(differences(partial.matrixLU(), mine) == "");
        for (int i = 0; i < n; ++i) CHECK(partial.permutationP().indices()(order[static_cast<std::size_t>(i)]) == i);

        mine = a;
        eliminate(mine, order, true, columns);
        const Eigen::FullPivLU<Matrix<Scalar>> full(a);
        CHECK(differences(full.matrixLU(), mine) == "");
    }
}

TEMPLATE_TEST_CASE("Eigen's Householder QR is the reflections written out", "[core][eigen]", Float<bf16>, Float<fp16>,
                   Float<e5m2>, Float<tf32>, Float<fp32>) {
    using Scalar = TestType;
    for (const auto& [rows, columns] : {std::pair{1, 1}, {4, 4}, {9, 5}, {12, 12}}) {
        const auto a = matrix<Scalar>(rows, columns, 7, 4);
        Matrix<Scalar> mine = a;
        Vector<Scalar> taus;
        reflect(mine, taus);
        const Eigen::HouseholderQR<Matrix<Scalar>> qr(a);
        CHECK(differences(qr.matrixQR(), mine) == "");
        CHECK(differences(qr.hCoeffs(), taus) == "");
    }
}

TEMPLATE_TEST_CASE("Eigen's conjugate gradients are the recurrences written out", "[core][eigen]", Float<bf16>,
                   Float<fp16>, Float<tf32>, Float<fp32>) {
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
