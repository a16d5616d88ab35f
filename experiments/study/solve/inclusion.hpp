// SPDX-License-Identifier: Apache-2.0
// Proven bounds on the error of a solution of A x = b, by an approximate inverse (Krawczyk 1969, Rump 1980).
//
// Let Y be any matrix, E = I - A Y, and v > 0 a vector with |E| v <= alpha v, alpha < 1. Then I - E is regular, so A
// and Y are, and the inverse of A is Y (I - E)^-1. For a residual r = b - A x with |r| <= rho v this gives
// |inverse r| <= |Y| v rho / (1 - alpha), which bounds the error of x. The computed bounds contain their own rounding
// errors.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/study/solve/factor/factors.hpp"
#include "experiments/study/solve/quad.hpp"

#include <limits>
#include <span>
#include <vector>

namespace macheps::study {

/// Numbers of 237 digits, used for the residuals of a proof.
using Oct = boost::multiprecision::cpp_bin_float_oct;

/// The bounds that an approximate inverse Y proves for a matrix.
struct Contraction {
    double alpha = std::numeric_limits<double>::infinity();  ///< |I - A Y| v <= alpha v
    double reach = std::numeric_limits<double>::infinity();  ///< max (|Y| v)
    std::vector<double> weights{};                           ///< v

    /// Returns true if the bounds prove that A is regular. False proves nothing.
    bool holds() const { return alpha < 1 && reach < std::numeric_limits<double>::infinity(); }
};

/// Returns the bounds that Y proves. `inverse` is Y, column by column. The products A Y are computed with the digits of
/// Y.
Contraction contraction(const Matrix& a, const std::vector<double>& inverse, ThreadPool& pool);
Contraction contraction(const Matrix& a, const std::vector<Quad>& inverse, ThreadPool& pool);

/// Returns the inverse of A from its fp64 LU factors, column by column.
std::vector<double> native_inverse(const Factors& factors, ThreadPool& pool);

/// Returns b - A x, computed with 237 digits.
std::vector<Oct> wide_residual(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, ThreadPool& pool);

/// Returns an upper bound on max |x_i - exact_i|, or infinity if `known` does not hold.
double error_bound(const Matrix& a, std::span<const double> b, const std::vector<Oct>& x, const Contraction& known,
                   ThreadPool& pool);

/// Returns an fp64 number that is greater than or equal to |x|.
template <class Number>
double magnitude_above(const Number& x) {
    if (x == 0) return 0;
    return std::nextafter(std::fabs(static_cast<double>(x)), std::numeric_limits<double>::infinity());
}

}  // namespace macheps::study
