// SPDX-License-Identifier: Apache-2.0
// Test matrices by name, in fp64: `randsvd:1e3`, `hilbert`, `tridiag:-1,2,-1`, `file:a.mtx`. The same name, size and
// seed give the same bits on every computer.
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

/// Selects a matrix: either a row of the gallery with its numbers, or a file.
struct MatrixChoice {
    std::string text{};  ///< the whole text, as the user wrote it
    std::string name{};  ///< the part of `text` before the colon
    std::vector<double> numbers{};
    std::string path{};  ///< for `file:`

    /// Returns the condition number that the user gave for randsvd, if any.
    std::optional<double> asked_condition() const;
};

struct GalleryRow {
    std::string_view name;
    std::string_view words;
    int min_numbers = 0, max_numbers = 0;  ///< numbers after the colon
    Matrix (*make)(std::int64_t n, std::uint64_t seed, std::span<const double> numbers);
};
std::span<const GalleryRow> gallery();

/// Parses `NAME[:NUMBER,...]` or `file:PATH`. If `randsvd` has no numbers, `condition` is its condition number. Errors:
/// throws Error (usage) for an unknown name or unsuitable numbers.
MatrixChoice parse_matrix(std::string_view text, std::optional<double> condition = {});

/// Makes a matrix. A matrix from a file has the size stored there, and `n` is ignored. Errors: throws Error (bad input)
/// if the file does not contain a square matrix of finite numbers with at most `max_stored_size` rows.
Matrix make_matrix(const MatrixChoice& choice, std::int64_t n, std::uint64_t seed);
inline constexpr std::int64_t max_stored_size = 4096;

/// Returns a random number in [0, 1) with 53 bits for element (outer, p) of an operand. It is the number that
/// Distribution::positive (operands.hpp) gives this element at scale 1, before that number is rounded to fp32.
double unit_draw(Operand operand, std::uint64_t seed, std::int64_t outer, std::int64_t p);

/// Returns b with b_i = 2 unit_draw(b, seed, 0, i) - 1.
std::vector<double> right_hand_side(std::int64_t n, std::uint64_t seed);

/// Returns a random matrix with singular values from 1 to 1 / condition: the product of an orthogonal, a diagonal and
/// another orthogonal matrix. `mode` selects their distribution: only one is large (1), only one is small (2), a
/// geometric sequence (3) or an arithmetic sequence (4).
Matrix random_singular_values(std::int64_t n, std::uint64_t seed, double condition, int mode);

}  // namespace macheps::study
