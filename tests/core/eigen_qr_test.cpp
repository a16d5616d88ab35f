// SPDX-License-Identifier: Apache-2.0
// Checks that Eigen's Householder QR in emulated formats gives the same bits as the reflections in plain loops.
#include "tests/core/eigen_matrices.hpp"

#include <Eigen/QR>

namespace eigen_qr_test {

using namespace macheps;
using namespace macheps::test;

namespace {

/// Factors `a` in place by Householder QR. Stores R on and above the diagonal, and the essential parts of the
/// reflectors below the diagonal.
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
        if (k + 1 == rows) {  // a reflector of a single row has no essential part
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

}  // namespace

TEMPLATE_TEST_CASE("Eigen's Householder QR gives the same bits as the reflections in plain loops", "[core][eigen]",
                   Float<bf16>, Float<e5m2>, Float<fp32>) {
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

}  // namespace eigen_qr_test
