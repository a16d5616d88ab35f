// SPDX-License-Identifier: Apache-2.0
// Matrices in emulated formats for the tests of Eigen. Each test runs one of Eigen's solvers and the same algorithm in
// plain loops, both with elements of type Float, and compares the bits of the results.
#pragma once
#include "core/rng.hpp"
#include "core/text/float_print.hpp"
#include "core/types/eigen.hpp"
#include "tests/test.hpp"

#include <vector>

namespace macheps::test {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
template <class Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

/// Returns a matrix whose entries are multiples of 1/8 from -4 to 4, with `diagonal` added on the diagonal.
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

/// Returns one line for each element whose bits differ, or an empty string if all elements are equal.
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

}  // namespace macheps::test
