// SPDX-License-Identifier: Apache-2.0
// The result of a factorisation of any kind: the factors, which the triangular solves read, and measures of their
// quality.
#pragma once
#include "experiments/study/solve/matrix.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Factorisation : std::uint8_t {
    lu,        ///< P A = L U
    cholesky,  ///< A = L L', for symmetric positive definite matrices
    qr,        ///< A = Q R, by Householder reflections
};

struct FactorisationName {
    std::string_view name;
    Factorisation factorisation;
};
inline constexpr FactorisationName factorisation_names[] = {
    {"lu", Factorisation::lu}, {"cholesky", Factorisation::cholesky}, {"qr", Factorisation::qr}};

std::string_view to_string(Factorisation factorisation);
std::optional<Factorisation> find_factorisation(std::string_view name);

struct Factors {
    Factorisation kind = Factorisation::lu;
    /// LU: L below the diagonal (its unit diagonal is not stored), U on and above it. Cholesky: L on and below the
    /// diagonal, L' above it. QR: the vectors of the reflections on and below the diagonal, R above it.
    Matrix lu{};
    std::vector<std::int64_t> rows{};         ///< row i of P A is row rows[i] of A
    std::vector<double> diagonal{}, betas{};  ///< QR: diagonal of R; reflection k is I - betas[k] v v'
    /// Whether the factorisation succeeded. It fails if a factor is not finite or if a pivot is zero. A negative pivot
    /// also fails for Cholesky, and a column that is zero from the diagonal down fails for QR.
    bool is_regular = false;
};

/// The reason why a factorisation ended before its last column.
enum class Breakdown : std::uint8_t {
    none,
    overflow,    ///< a factor is Inf or NaN
    singular,    ///< the pivot and everything below it are zero
    zero_pivot,  ///< LU without pivoting: the pivot is zero, but an element below it is not
    indefinite,  ///< Cholesky: the pivot is negative, or it is zero but an element below it is not
};
Breakdown breakdown_of(const Factors& factors);

/// Returns norm(P A - L U) / norm(A). For Cholesky and QR, the numerator is norm(A - L L') or norm(A - Q R). The norm
/// is the largest row sum of magnitudes. Returns infinity if a factor is not finite.
double lu_error(const Matrix& a, const Factors& factors);
/// Returns max |u_ij| / max |a_ij|. u_ij are the elements of U for LU, of R for QR, and of D L' for Cholesky, where D
/// is the diagonal of L.
double growth_factor(const Matrix& a, const Factors& factors);

}  // namespace macheps::study
