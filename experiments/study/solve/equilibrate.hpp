// SPDX-License-Identifier: Apache-2.0
// Scales a matrix before it is rounded to a narrow format: A_f = fl(mu R A C). R, C and mu are powers of two, so the
// scaling itself does not round (after Higham, Pranesh, Zounon 2019).
#pragma once
#include "core/format.hpp"
#include "experiments/study/solve/matrix.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

enum class Scale : std::uint8_t {
    none,
    scalar,     ///< only mu
    two_sided,  ///< scales the rows, then the columns of the result, then all by mu
    symmetric,  ///< the same factor for row i and column i, then mu; keeps the matrix symmetric
};

struct ScaleName {
    std::string_view name;
    Scale scale;
};
inline constexpr ScaleName scale_names[] = {
    {"none", Scale::none}, {"scalar", Scale::scalar}, {"two-sided", Scale::two_sided}, {"symmetric", Scale::symmetric}};

std::string_view to_string(Scale scale);
std::optional<Scale> find_scale(std::string_view name);

/// Exponents of the scale factors: R (rows), C (columns) and mu.
struct Equilibration {
    std::vector<int> rows{}, columns{};  ///< empty: all 0
    int mu = 0;

    int row(std::int64_t i) const { return rows.empty() ? 0 : rows[static_cast<std::size_t>(i)]; }
    int column(std::int64_t j) const { return columns.empty() ? 0 : columns[static_cast<std::size_t>(j)]; }
};

/// Returns whether a matrix is scaled before it is rounded to the format. If the largest number of the format is 10^6
/// or more, its range is wide enough without scaling.
bool is_scaled(const Format& format);
Equilibration equilibrate(const Matrix& a, const Format& format, Scale scale);

/// Effects of rounding A. The counts include only elements that are not zero before rounding.
struct CastCounts {
    std::int64_t underflow = 0, to_subnormal = 0, overflow = 0;
    bool leaves_range = false;  ///< an element became Inf or NaN, or was clipped because the format has neither
    bool empties_line = false;  ///< a row or a column that was not zero became zero
};

/// Returns fl(mu R A C), with one rounding for each element.
Matrix cast_matrix(const Matrix& a, const Equilibration& scaling, const Format& format, CastCounts& counts);

}  // namespace macheps::study
