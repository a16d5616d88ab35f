// SPDX-License-Identifier: Apache-2.0
// Test matrices by name, in fp64: `randsvd:1e3`, `hilbert`, `tridiag:-1,2,-1`, `file:a.mtx`. The same name, size and
// seed give the same bits everywhere.
#pragma once
#include "experiments/study/operands.hpp"
#include "experiments/study/solve/matrix.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::study {

/// Selects a matrix: a row of the gallery and its numbers, or a file.
struct MatrixChoice {
    std::string text{};  ///< as requested
    std::string name{};  ///< before the colon
    std::vector<double> numbers{};
    std::string path{};  ///< for `file:`

    /// Returns the condition number that randsvd was given, if any.
    std::optional<double> asked_condition() const;
};

struct GalleryRow {
    std::string_view name;
    std::string_view words;
    int min_numbers = 0, max_numbers = 0;  ///< numbers after the colon
    Matrix (*make)(std::int64_t n, std::uint64_t seed, std::span<const double> numbers);
};
std::span<const GalleryRow> gallery();

/// Reads `NAME[:NUMBER,...]`. `randsvd` without numbers takes its condition number from `condition`, if that is given.
/// Errors: throws Error (usage).
MatrixChoice parse_matrix(std::string_view text, std::optional<double> condition = {});

/// Makes a matrix. A matrix from a file has the size of the file, and `n` is ignored. Errors: throws Error (bad input)
/// for a file that does not hold a square matrix of finite numbers with at most `max_stored_size` rows.
Matrix make_matrix(const MatrixChoice& choice, std::int64_t n, std::uint64_t seed);
inline constexpr std::int64_t max_stored_size = 4096;

/// Returns the 53 random bits of an element as a number in [0, 1): the draw of experiments/study/operands.hpp, not
/// rounded to fp32.
double unit_draw(Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p);

/// Returns b with b_i = 2 unit_draw(b, seed, 0, i) - 1.
std::vector<double> right_hand_side(std::int64_t n, std::uint64_t seed);

/// Returns an orthogonal times a diagonal times an orthogonal matrix, with singular values from 1 to 1 / condition.
/// Modes: 1, one large; 2, one small; 3, geometric; 4, arithmetic.
Matrix random_singular_values(std::int64_t n, std::uint64_t seed, double condition, int mode);

}  // namespace macheps::study
