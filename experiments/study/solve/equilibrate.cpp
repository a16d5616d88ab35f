// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/equilibrate.hpp"

#include "core/codec.hpp"
#include "core/ulp.hpp"

namespace macheps::study {

namespace {

double largest_of(const Format& format) { return decode64(format, format.max_finite_code() << format.padding); }

/// Returns the exponent e for which x = m 2^e with |m| in [1/2, 1), or 0 if x is 0.
int exponent_of(double x) {
    int exponent = 0;
    std::frexp(x, &exponent);
    return exponent;
}

int floor_half(int x) { return x >= 0 ? x / 2 : -((1 - x) / 2); }

/// Returns the largest magnitude in each row, or in each column, of the scaled matrix R A C.
std::vector<double> largest_in(const Matrix& a, const Equilibration& scaling, bool of_columns) {
    std::vector<double> most(static_cast<std::size_t>(a.n));
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = 0; j < a.n; ++j) {
            double& place = most[static_cast<std::size_t>(of_columns ? j : i)];
            place = std::max(place, std::fabs(std::ldexp(a(i, j), scaling.row(i) + scaling.column(j))));
        }
    }
    return most;
}

std::vector<int> negated_exponents(const std::vector<double>& values, bool halved) {
    std::vector<int> exponents;
    for (const double value : values)
        exponents.push_back(-(halved ? floor_half(exponent_of(value)) : exponent_of(value)));
    return exponents;
}

/// Returns whether a row or column of `a` that is not zero became zero in `rounded`.
bool has_emptied_line(const Matrix& a, const Matrix& rounded) {
    for (std::int64_t i = 0; i < a.n; ++i) {
        bool had_row = false, had_column = false, has_row = false, has_column = false;
        for (std::int64_t j = 0; j < a.n; ++j) {
            had_row = had_row || a(i, j) != 0;
            had_column = had_column || a(j, i) != 0;
            has_row = has_row || rounded(i, j) != 0;
            has_column = has_column || rounded(j, i) != 0;
        }
        if ((had_row && !has_row) || (had_column && !has_column)) return true;
    }
    return false;
}

}  // namespace

std::string_view to_string(Scale scale) {
    for (const ScaleName& row : scale_names) {
        if (row.scale == scale) return row.name;
    }
    return {};
}

std::optional<Scale> find_scale(std::string_view name) {
    for (const ScaleName& row : scale_names) {
        if (row.name == name) return row.scale;
    }
    return std::nullopt;
}

bool is_scaled(const Format& format) { return largest_of(format) < 1e6; }

Equilibration equilibrate(const Matrix& a, const Format& format, Scale scale) {
    Equilibration scaling;
    if (scale == Scale::none || !is_scaled(format)) return scaling;
    if (scale == Scale::two_sided) {
        scaling.rows = negated_exponents(largest_in(a, scaling, false), false);
        scaling.columns = negated_exponents(largest_in(a, scaling, true), false);
    } else if (scale == Scale::symmetric) {
        scaling.rows = negated_exponents(largest_in(a, scaling, false), true);
        scaling.columns = scaling.rows;
    }
    const double most = max_norm(largest_in(a, scaling, false));
    if (most > 0) scaling.mu = exponent_of(0.1 * largest_of(format) / most) - 1;
    return scaling;
}

Matrix cast_matrix(const Matrix& a, const Equilibration& scaling, const Format& format, CastCounts& counts) {
    Matrix rounded(a.n);
    const double largest = largest_of(format), min_normal = Format::power_of_two(format.emin());
    const double half_place =
        ulp(format, largest) / 2;  // numbers that exceed `largest` by less than this round to `largest`
    for (std::int64_t i = 0; i < a.n; ++i) {
        for (std::int64_t j = 0; j < a.n; ++j) {
            const double x = std::ldexp(a(i, j), scaling.mu + scaling.row(i) + scaling.column(j));
            const double q = decode64(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
            rounded(i, j) = q;
            const bool is_beyond =
                !std::isfinite(q) || (!format.can_overflow() && std::fabs(x) - largest >= half_place);
            counts.leaves_range = counts.leaves_range || is_beyond;
            if (a(i, j) == 0) continue;
            counts.underflow += q == 0;
            counts.to_subnormal += q != 0 && std::fabs(q) < min_normal;
            counts.overflow += std::fabs(x) > largest;
        }
    }
    counts.empties_line = has_emptied_line(a, rounded);
    return rounded;
}

}  // namespace macheps::study
