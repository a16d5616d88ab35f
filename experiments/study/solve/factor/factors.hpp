// SPDX-License-Identifier: Apache-2.0
// What a factorisation leaves, whichever it is: what the triangular solves read, and what says how good it was.
#pragma once
#include "experiments/study/solve/matrix.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Factorisation : std::uint8_t {
    lu,        ///< P A = L U
    cholesky,  ///< A = L L', of symmetric positive definite matrices
    qr,        ///< A = Q R, by Householder's reflections
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
    /// LU: L below the diagonal (ones on it are left out), U on and above it. Cholesky: L on and below the diagonal, L' above.
    /// QR: the vectors of the reflections on and below the diagonal, R above it.
    Matrix lu{};
    std::vector<std::int64_t> rows{};         ///< row i of P A is this row of A
    std::vector<double> diagonal{}, betas{};  ///< QR: of R; reflection k is 1 - betas[k] v v'
    bool is_regular = false;  ///< false: a pivot was zero, or below it in Cholesky, or a factor is no finite number
};

/// The reason why a factorisation ended before its last column.
enum class Breakdown : std::uint8_t {
    none,
    overflow,    ///< a factor is Inf or NaN
    singular,    ///< the pivot and everything below it are zero
    zero_pivot,  ///< LU without pivoting: the pivot is zero, and something below it is not
    indefinite,  ///< Cholesky: the pivot is negative, or it is zero and something below it is not
};
Breakdown breakdown_of(const Factors& factors);

/// norm(P A - L U) / norm(A), row sums of magnitudes, or the same of A - L L' and A - Q R; infinite where a factor is not
/// finite.
double lu_error(const Matrix& a, const Factors& factors);
/// max |u_ij| / max |a_ij|, of U, of R, or of Cholesky's U = D L'.
double growth_factor(const Matrix& a, const Factors& factors);

}  // namespace macheps::study
