// SPDX-License-Identifier: Apache-2.0
// Reference solution of a system, by LU with 113 digits in software: the solution, a proven bound on its error, and
// condition numbers.
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
    std::optional<double> kappa{};           ///< norm(A) norm(inverse), largest row sums
    std::string kappa_kind{};                ///< inverse, estimate
    std::optional<double> cond{}, cond_x{};  ///< norm(|inverse| |A|), norm(|inverse| |A| |x|) / norm(x)
    std::string quality{};                   ///< fp128: factors of 113 digits; refined: fp64 factors; uncertain: no x
    std::optional<double> error_bound{};     ///< proven: norm(x - exact) / norm(exact) is at most this
};

inline constexpr std::int64_t max_quad_size = 512, max_inverse_size = 256;

/// Largest error_bound with which x is a reference. Forward errors of fp64 are at least 2^-53, so they keep 14 digits.
inline constexpr double max_reference_error = 0x1p-100;

/// Solves a system by LU with 113 digits up to max_quad_size rows, and by LU in fp64 above. Residuals of 237 digits
/// refine x, and an approximate inverse proves its bound (inclusion.hpp). Without a proof the quality is `uncertain`,
/// and x is empty: the matrix is singular, or its condition number is too large for the arithmetic (about 2^100 with
/// factors of 113 digits, 2^40 with factors of fp64). Up to max_inverse_size rows kappa comes from the inverse that
/// proves the solution, else it is an estimate from below (Hager, Higham). A zero pivot gives an infinite kappa.
Reference reference_solution(const Matrix& a, std::span<const double> b, ThreadPool& pool);

/// Errors of a computed x: forward, normwise and componentwise backward. All are infinite if x is not finite. The
/// forward error of a finite x is empty if the reference is uncertain.
struct SolutionErrors {
    std::optional<double> forward{};
    double normwise = 0, componentwise = 0;
};
/// Returns the errors of x. `residual` is b - A x, computed with 113 digits and rounded to fp64.
SolutionErrors solution_errors(const Matrix& a, std::span<const double> b, std::span<const double> x,
                               std::span<const double> residual, const Reference& reference);

/// Returns b - A x, computed with 113 digits, terms in ascending order, then rounded to fp64.
std::vector<double> exact_residual(const Matrix& a, std::span<const double> b, std::span<const double> x);

}  // namespace macheps::study
