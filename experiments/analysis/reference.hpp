// SPDX-License-Identifier: Apache-2.0
// What the solution of a system should be, and how sensitive it is: LU with 113 digits, in software.
#pragma once
#include "core/thread_pool.hpp"
#include "experiments/analysis/matrix.hpp"
#include "experiments/analysis/quad.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::analysis {

struct Reference {
    std::vector<Quad> x{};
    double x_norm = 0;                        ///< max |x_i|
    std::optional<double> kappa{};            ///< norm(A) norm(inverse), row sums
    std::string kappa_kind{};                 ///< inverse, estimate
    std::optional<double> cond{}, cond_x{};   ///< norm(|inverse| |A|), norm(|inverse| |A| |x|) / norm(x)
    std::string quality{};                    ///< fp128; refined: fp64 factors, residuals in fp128; uncertain
};

inline constexpr std::int64_t most_quad_size = 512, most_inverse_size = 256;

/// Up to most_quad_size rows LU with 113 digits and three steps of refinement, and up to most_inverse_size the inverse; above
/// fp64 LU, refined with residuals of 113 digits, and an estimate of kappa (Hager, Higham). A singular matrix has the
/// quality `uncertain`, an infinite kappa, and no x.
Reference reference_solution(const Matrix& a, std::span<const double> b, ThreadPool& pool);

/// Errors of a computed x: forward, normwise and componentwise backward. All infinite where x is not finite.
struct SolutionErrors {
    double forward = 0, normwise = 0, componentwise = 0;
};
/// `residual` is b - A x, exact but for one rounding each. Without a reference (an empty x) the forward error is infinite.
SolutionErrors solution_errors(const Matrix& a, std::span<const double> b, std::span<const double> x,
                               std::span<const double> residual, const Reference& reference);

/// b - A x with 113 digits, terms in ascending order, then rounded to fp64.
std::vector<double> exact_residual(const Matrix& a, std::span<const double> b, std::span<const double> x);

}  // namespace macheps::analysis
