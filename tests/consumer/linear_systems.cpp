// SPDX-License-Identifier: Apache-2.0
// Solves linear systems in e5m2 and fp16, with Eigen matrices.
#include "check.hpp"

#include "core/error.hpp"
#include "experiments/study/solve/eigen.hpp"
#include "experiments/study/solve/factor/definitions.hpp"

#include <vector>

namespace {

using namespace macheps;
using namespace macheps::study;

template <Format F>
void check_format() {
    constexpr int n = 9;
    FloatMatrix<F> a(n, n);
    FloatVector<F> b(n);
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) a(i, j) = Float<F>(i == j ? 4.0 : 1.0 / (1 + i + j));
        b(i) = Float<F>(i + 1);
    }
    const FloatMatrix<F> symmetric = a;
    std::vector<Float<F>> expected(a.data(), a.data() + n * n);
    std::vector<std::int64_t> rows;
    CONSUMER_CHECK(macheps::study::definition::lu(n, expected.data(), rows));
    const Factors factors = factor<F>(a);
    const FloatMatrix<F> lu = numbers_of<F>(factors);
    for (int i = 0; i < n * n; ++i) CONSUMER_CHECK(lu.data()[i].bits() == expected[static_cast<std::size_t>(i)].bits());

    for (const Factorisation kind : {Factorisation::lu, Factorisation::cholesky, Factorisation::qr}) {
        const FloatVector<F> x = solve<F>(factor<F>(symmetric, kind), b);
        for (int i = 0; i < n; ++i) {
            double left = 0;
            for (int j = 0; j < n; ++j) left += static_cast<double>(a(i, j)) * static_cast<double>(x(j));
            const double off = left - static_cast<double>(b(i));
            CONSUMER_CHECK(off <= 40 * n * F.unit_roundoff() && -off <= 40 * n * F.unit_roundoff());
        }
    }
    // A block of a larger matrix is accepted as a matrix.
    const FloatVector<F> x = solve<F>(factor<F>(a.topLeftCorner(2, 2)), b.head(2));
    CONSUMER_CHECK(x.size() == 2);
}

}  // namespace

int main() {
    check_format<fp16>();
    check_format<e5m2>();
    bool refused = false;
    try {
        (void)factor<fp16>(FloatMatrix<fp16>::Zero(2, 3));
    } catch (const Error&) {
        refused = true;
    }
    CONSUMER_CHECK(refused);
    return failures == 0 ? 0 : 1;
}
