// SPDX-License-Identifier: Apache-2.0
// Solves Ax = b by LU with row exchanges in several formats, and then refines the solution. Factors in a narrow format
// lose accuracy, and refinement steps with a residual in fp64 recover it (Higham, Accuracy and Stability of Numerical
// Algorithms, chapter 12). Prints the backward error |b - Ax| / (|A||x| + |b|) before and after.
//
//     c++ -std=c++20 lu.cpp $(pkg-config --cflags --libs macheps-core eigen3) && ./a.out
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "core/types/eigen.hpp"

#include <fmt/format.h>
#include <Eigen/LU>

#include <cstdio>

using namespace macheps;

namespace {

using Wide = Eigen::MatrixXd;

/// Returns a matrix of random numbers from -1 to 1. They come from Philox and are the same on every machine.
Wide random_matrix(int rows, int columns, std::uint32_t site) {
    Wide a(rows, columns);
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j)
            a(i, j) = random_bits({.seed = 1, .site = site}, static_cast<std::uint64_t>(i * columns + j)) / 0x1p31 - 1;
    }
    return a;
}

double backward_error(const Wide& a, const Wide& x, const Wide& b) {
    const auto size = [](const Wide& m) { return m.cwiseAbs().rowwise().sum().maxCoeff(); };
    return size(b - a * x) / (size(a) * size(x) + size(b));
}

template <Format F>
void solve(const Wide& a, const Wide& b) {
    using Scalar = Float<F>;
    using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
    const Matrix narrow = a.cast<Scalar>();
    const Eigen::PartialPivLU<Matrix> factors(narrow);
    const auto correction = [&](const Wide& residual) -> Wide {
        // A residual may be too small for the format, so it is first divided by its largest magnitude.
        const double scale = residual.cwiseAbs().maxCoeff();
        if (scale == 0) return Wide::Zero(b.rows(), b.cols());
        const Matrix right = Wide(residual / scale).cast<Scalar>();
        return Matrix(factors.solve(right)).template cast<double>() * scale;
    };
    Wide x = correction(b);
    const double first = backward_error(a, x, b);
    for (int step = 0; step < 8; ++step) x += correction(b - a * x);
    fmt::print("{:8}  {:9.1e}  {:9.1e}  {:9.1e}\n", format_name(F), F.unit_roundoff(), first, backward_error(a, x, b));
}

}  // namespace

int main() {
    constexpr int n = 32;
    // The diagonal is so large that the factors are not singular, even in the narrowest format below.
    const Wide a = random_matrix(n, n, 1) + 4 * Wide::Identity(n, n), b = random_matrix(n, 1, 2);
    fmt::print("{:8}  {:>9}  {:>9}  {:>9}\n", "factors", "roundoff", "solved", "refined");
    solve<fp32>(a, b);
    solve<fp16>(a, b);
    solve<bf16>(a, b);
    solve<Format{.bits = 12, .precision = 7, .exponent_bias = 15}>(a, b);  // e5m6
    return std::ferror(stdout) != 0;
}
