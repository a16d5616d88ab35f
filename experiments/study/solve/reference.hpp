// SPDX-License-Identifier: Apache-2.0
// Computes the reference solution of a linear system, a proven bound on its error, and condition numbers. Uses LU with
// 113 digits in software, or fp64 for large systems.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/study/solve/matrix.hpp"
#include "experiments/study/solve/quad.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::study {

struct Reference {
    std::vector<Quad> x{};
    double x_norm = 0;                       ///< max |x_i|
    std::optional<double> kappa{};           ///< norm(A) norm(inverse); the norm is the largest row sum
    std::string kappa_kind{};                ///< `inverse` or `estimate`
    std::optional<double> cond{}, cond_x{};  ///< norm(|inverse| |A|), norm(|inverse| |A| |x|) / norm(x)
    std::string quality{};                   ///< fp128 (113-digit factors), refined (fp64 factors) or uncertain (no x)
    std::optional<double> error_bound{};     ///< proven upper bound on norm(x - exact) / norm(exact)
};

inline constexpr std::int64_t max_quad_size = 512, max_inverse_size = 256;

/// Largest error_bound for which x is accepted as a reference. Forward errors of fp64 solutions are usually 2^-53 or
/// larger. A reference within this limit determines them to 14 decimal digits.
inline constexpr double max_reference_error = 0x1p-100;

/// Solves A x = b by LU. The factors have 113 digits up to max_quad_size rows, and are in fp64 for larger systems. x is
/// refined with residuals of 237 digits, and an approximate inverse proves its error bound (inclusion.hpp). If the
/// proof fails, the quality is `uncertain` and x is empty. This happens if the matrix is singular, or if its condition
/// number is too large for the arithmetic: about 2^100 with factors of 113 digits, and 2^40 with fp64 factors. Up to
/// max_inverse_size rows, kappa comes from the inverse that proves the solution. Otherwise kappa is an estimate from
/// below (Hager, Higham). If a pivot is zero, kappa is infinite.
Reference reference_solution(const Matrix& a, std::span<const double> b, ThreadPool& pool);

/// Errors of a computed x: the forward error, and the normwise and componentwise backward errors. All are infinite if x
/// or its residual is not finite. If both are finite but the reference is uncertain, `forward` is empty.
struct SolutionErrors {
    std::optional<double> forward{};
    double normwise = 0, componentwise = 0;
};
/// Returns the errors of x. `residual` is b - A x, computed with 113 digits and rounded to fp64.
SolutionErrors solution_errors(const Matrix& a, std::span<const double> b, std::span<const double> x,
                               std::span<const double> residual, const Reference& reference);

/// Returns b - A x, computed with 113 digits and then rounded to fp64. The terms are subtracted in ascending order.
std::vector<double> exact_residual(const Matrix& a, std::span<const double> b, std::span<const double> x);

}  // namespace macheps::study
