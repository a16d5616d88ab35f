// SPDX-License-Identifier: Apache-2.0
// Proves bounds on the error of a solution of A x = b, with an approximate inverse of A (Krawczyk 1969, Rump 1980).
//
// Let Y be any matrix and E = I - A Y. Let v > 0 be a vector with |E| v <= alpha v and alpha < 1. Then I - E is
// regular, so A and Y are also regular, and the inverse of A is Y (I - E)^-1. The error of x is the inverse of A times
// the residual r = b - A x. If |r| <= rho v, then the error is at most |Y| v rho / (1 - alpha). The computed bounds
// include their own rounding errors.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/study/solve/factor/factors.hpp"
#include "experiments/study/solve/quad.hpp"

#include <limits>
#include <span>
#include <vector>

namespace macheps::study {

/// Numbers with 237 digits. They are used for the residuals in a proof.
using Oct = boost::multiprecision::cpp_bin_float_oct;

/// Bounds for a matrix A that are computed from an approximate inverse Y.
struct Contraction {
    double alpha = std::numeric_limits<double>::infinity();  ///< with it, |I - A Y| v <= alpha v
    double reach = std::numeric_limits<double>::infinity();  ///< bound on the largest element of |Y| v
    std::vector<double> weights{};                           ///< the vector v

    /// Returns whether the bounds prove that A is regular. If not, A may still be regular.
    bool holds() const { return alpha < 1 && reach < std::numeric_limits<double>::infinity(); }
};

/// Returns the bounds for `a`. `inverse` is Y, stored column by column. The product A Y is computed in the number type
/// of Y.
Contraction contraction(const Matrix& a, const std::vector<double>& inverse, ThreadPool& pool);
Contraction contraction(const Matrix& a, const std::vector<Quad>& inverse, ThreadPool& pool);

/// Returns the inverse of A from its fp64 LU factors, column by column.
std::vector<double> native_inverse(const Factors& factors, ThreadPool& pool);

/// Returns b - A x, computed with 237 digits.
std::vector<Oct> wide_residual(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, ThreadPool& pool);

/// Returns an upper bound on max |x_i - exact_i|, or infinity if known.holds() is false.
double error_bound(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, const Contraction& known,
                   ThreadPool& pool);

/// Returns an fp64 number that is greater than or equal to |x|.
template <class Number>
double magnitude_above(const Number& x) {
    if (x == 0) return 0;
    return std::nextafter(std::fabs(static_cast<double>(x)), std::numeric_limits<double>::infinity());
}

}  // namespace macheps::study
