// SPDX-License-Identifier: Apache-2.0
// Checks that Eigen's LU in emulated formats gives the same bits as Gaussian elimination in plain loops.
#include "tests/core/eigen_matrices.hpp"

#include <Eigen/LU>

namespace eigen_lu_test {

using namespace macheps;
using namespace macheps::test;

namespace {

/// Factors `a` in place by right-looking LU with row exchanges and, if `full`, column exchanges. Stores the multipliers
/// below the diagonal, and U on and above the diagonal.
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

}  // namespace

TEMPLATE_TEST_CASE("Eigen's LU gives the same bits as Gaussian elimination in plain loops", "[core][eigen]",
                   Float<bf16>, Float<e4m3fn>, Float<tf32>, Float<fp32>) {
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

}  // namespace eigen_lu_test
