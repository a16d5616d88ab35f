// SPDX-License-Identifier: Apache-2.0
// Test matrices by name, in fp64: `randsvd:1e3`, `hilbert`, `tridiag:-1,2,-1`, `file:a.mtx`. The same name, size and seed
// give the same bits everywhere.
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

/// Which matrix: a row of the gallery and its numbers, or a file.
struct MatrixChoice {
    std::string text{};  ///< as it was asked for
    std::string name{};  ///< before the colon
    std::vector<double> numbers{};
    std::string path{};  ///< of `file:`

    /// The condition number that randsvd was asked for.
    std::optional<double> asked_condition() const;
};

struct GalleryRow {
    std::string_view name;
    std::string_view words;
    int least_numbers = 0, most_numbers = 0;  ///< behind the colon
    Matrix (*make)(std::int64_t n, std::uint64_t seed, std::span<const double> numbers);
};
std::span<const GalleryRow> gallery();

/// Reads `NAME[:NUMBER,...]`; `randsvd` alone takes its condition number from `condition`, when that is given.
/// Errors: throws Error (usage).
MatrixChoice parse_matrix(std::string_view text, std::optional<double> condition = {});

/// A file's matrix has the file's size, and `n` is not read. Errors: throws Error (bad input) for a file that holds no
/// square matrix of finite numbers of at most `most_stored_size` rows.
Matrix make_matrix(const MatrixChoice& choice, std::int64_t n, std::uint64_t seed);
inline constexpr std::int64_t most_stored_size = 4096;

/// The 53 random bits of an element as a number in [0, 1): the draw of experiments/study/operands.hpp before it is
/// rounded to fp32.
double unit_draw(Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p);

/// b_i = 2 draw(b, seed, 0, i) - 1.
std::vector<double> right_hand_side(std::int64_t n, std::uint64_t seed);

/// Orthogonal times diagonal times orthogonal, with singular values from 1 to 1 / condition. Modes: 1, one large; 2, one
/// small; 3, geometric; 4, arithmetic.
Matrix random_singular_values(std::int64_t n, std::uint64_t seed, double condition, int mode);

}  // namespace macheps::study
